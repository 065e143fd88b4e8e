// SPDX-License-Identifier: Apache-2.0
// AdamW for lists of tensors. Updates the master weights and their bf16 copies
// in one pass.
#pragma once

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// Updates the parameters and the optimizer's state. Also updates each bf16
/// copy of a parameter that was up to date before the step.
void adamw_step(const AdamWStep& step);

}  // namespace accelerate::cuda
