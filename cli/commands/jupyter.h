// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& jupyter_info();
int run_jupyter(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
