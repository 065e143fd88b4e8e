// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& completion_info();
int run_completion(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
