// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& env_info();
int run_env(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
