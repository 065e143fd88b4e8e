// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& config_info();
int run_config(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
