// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& checkpoint_info();
int run_checkpoint(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
