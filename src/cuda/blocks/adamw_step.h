// SPDX-License-Identifier: Apache-2.0
// AdamW for lists of tensors. Updates the master weights and their bf16 copies
// in one pass.
#pragma once

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Updates the parameters and the optimizer's state. Also updates the bf16
/// copies of the parameters, except copies that were out of date before the
/// step.
void adamw_step(const AdamWStep& step);

}  // namespace accelerate::cuda
