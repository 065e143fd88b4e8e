// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

/// `accelerate checkpoint export DIR OUT`: exports the first model in the
/// checkpoint DIR to the new folder OUT, in Hugging Face's format. OUT appears
/// only when all of its files are complete.
int export_checkpoint(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
