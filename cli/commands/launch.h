// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& launch_info();
int run_launch(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
