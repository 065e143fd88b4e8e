// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& test_info();
int run_test(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
