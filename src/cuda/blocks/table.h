// SPDX-License-Identifier: Apache-2.0
// All blocks, as models find them.
#pragma once

#include "device/fused_blocks.h"

namespace accelerate::cuda {

const FusedBlocks& fused_block_table();

}  // namespace accelerate::cuda
