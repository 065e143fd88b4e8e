// SPDX-License-Identifier: Apache-2.0
// The table of all fused operations. Models and optimizers call these
// operations through the table.
#pragma once

#include "device/fused_blocks.h"

namespace accelerate::cuda {

const FusedBlocks& fused_block_table();

}  // namespace accelerate::cuda
