// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& help_info();
int run_help(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
