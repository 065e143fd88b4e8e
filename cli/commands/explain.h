// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

const CommandInfo& explain_info();
int run_explain(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
