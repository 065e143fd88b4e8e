// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& estimate_memory_info();
int run_estimate_memory(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
