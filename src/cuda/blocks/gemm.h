// SPDX-License-Identifier: Apache-2.0
// GEMMs through cuBLASLt, with features that ATen's matmuls lack: fp32 results
// from bf16 inputs, the addition of another matrix, and epilogues.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// Options for a GEMM.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  /// This vector is added to each row of the result. Has the same type as the
  /// result. May be undefined.
  at::Tensor bias = {};
  /// This matrix is added to the result. May be the output matrix itself, or
  /// undefined.
  at::Tensor add = {};
};

/// Computes out = op(a) op(b) for matrices with contiguous rows, where op is
/// the identity or a transposition. `a` and `b` are both bf16 or both fp16.
/// `out` has the same type, or fp32. Runs on the current stream. The first GEMM
/// with given shapes may try several algorithms (see `set_gemm_tuning`).
void gemm_into(
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const GemmOptions& options = {});

/// Like `gemm_into`, but returns a new matrix with the type of `a`.
at::Tensor gemm(
    const at::Tensor& a, const at::Tensor& b, const GemmOptions& options = {});

/// Returns the weight gradient of a linear layer, [E, D] in fp32: the transpose
/// of `dy`, [N, E], times `x`, [N, D].
at::Tensor gemm_weight_gradient(const at::Tensor& dy, const at::Tensor& x);

/// Sets whether the first GEMM with given shapes measures which algorithm is
/// fastest. On by default. cuBLASLt's first choice is used instead if tuning is
/// off, if a CUDA graph is being captured, or if LibTorch's deterministic
/// algorithms are on. Without tuning, results are bitwise reproducible between
/// runs.
void set_gemm_tuning(bool on);

}  // namespace accelerate::cuda
