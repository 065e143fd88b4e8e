// SPDX-License-Identifier: Apache-2.0
// Keeps bf16 copies of fp32 master weights, for GEMMs.
//
// A parameter is copied when its copy is first used. If LibTorch's version
// counter or the parameter's address shows that the parameter has changed, the
// next use updates the copy. `accelerate::AdamW` writes the parameter and its
// copy in one pass, so its steps need no such update. Parameters that one GEMM
// uses together share one contiguous copy.
//
// Thread-safe. A copy is discarded some time after its parameter is destroyed.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Returns the bf16 copies of the parameters, concatenated along the first
/// dimension. If the parameters are already bf16, no copy is kept for later
/// calls.
at::Tensor low_precision_copy_of(const std::vector<at::Tensor>& parameters);

inline at::Tensor low_precision_copy_of(const at::Tensor& parameter) {
  return low_precision_copy_of(std::vector<at::Tensor>{parameter});
}

/// Returns the bf16 copy of a matrix, padded with rows of zeros so that the
/// number of rows is a multiple of 64. Without the padding, cuBLASLt would have
/// only its slowest kernels for an odd number of rows.
at::Tensor padded_low_precision_copy_of(const at::Tensor& parameter);

/// Returns the bf16 copy of `parameter` if there is an up-to-date copy;
/// otherwise, returns an undefined tensor. Never makes a copy.
at::Tensor find_low_precision_copy(const at::Tensor& parameter);

/// Increments LibTorch's version counter of a parameter that a kernel has
/// changed. `copy_is_current` must be true only if the kernel has also updated
/// the copy that `find_low_precision_copy` returned.
void mark_changed(const at::Tensor& parameter, bool copy_is_current);

/// Updates all copies that are out of date. The caller must call this function
/// before it replays a CUDA graph, because the captured work does not update
/// the copies.
void refresh_low_precision_copies();

}  // namespace accelerate::cuda
