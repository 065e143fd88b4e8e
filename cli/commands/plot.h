// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& plot_info();
int run_plot(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
