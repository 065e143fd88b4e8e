// SPDX-License-Identifier: Apache-2.0
// Removes the padding from batches by packing the real tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/fused_blocks.h"

namespace accelerate::cuda {

/// See `FusedBlocks::unpad`.
UnpaddedBatch unpad(const at::Tensor& mask_BT, std::int64_t rows);

/// See `FusedBlocks::take_rows`.
at::Tensor take_rows(
    const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse);

}  // namespace accelerate::cuda
