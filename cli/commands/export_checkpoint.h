// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

/// `accelerate checkpoint export DIR OUT`: the first model of a checkpoint as a
/// Hugging Face folder, which appears whole or not at all.
int export_checkpoint(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
