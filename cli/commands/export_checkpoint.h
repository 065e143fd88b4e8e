// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command.h"

namespace accelerate {

/// `accelerate checkpoint export DIR OUT`: exports the first model in the
/// checkpoint DIR to the new folder OUT, in Hugging Face's format. OUT is
/// complete as soon as it exists.
int export_checkpoint(const ParsedArgs& arguments, CommandContext& context);

}  // namespace accelerate
