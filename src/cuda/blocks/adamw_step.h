// SPDX-License-Identifier: Apache-2.0
// AdamW on lists of tensors, parameters and their bf16 shadows in one pass.
#pragma once

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Shadows that were up to date change with their parameters and stay so.
void adamw_step(const AdamWStep& work);

}  // namespace accelerate::cuda
