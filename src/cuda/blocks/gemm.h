// SPDX-License-Identifier: Apache-2.0
// Matrix products through cuBLASLt: what ATen's do not offer is a result in
// fp32 from bf16 factors, a sum with another matrix, and what is done to the
// result before it is written.
#pragma once

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// What a product does besides multiplying.
struct GemmOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  /// Added to each row of the result; of the result's type. May be undefined.
  at::Tensor bias = {};
  /// Added to the result, which it may be itself. May be undefined.
  at::Tensor add = {};
};

/// out = op(a) op(b), all matrices whose rows lie together, a and b in bf16 or
/// fp16, `out` in that type or fp32. Runs on the current stream; the first
/// product of a shape tries several algorithms (see `set_gemm_tuning`).
void gemm_into(
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const GemmOptions& options = {});

/// The same into a new matrix of a's type.
at::Tensor gemm(
    const at::Tensor& a, const at::Tensor& b, const GemmOptions& options = {});

/// dW of a linear layer in fp32: the transposed `dy` [N, E] times x [N, D].
at::Tensor gemm_weight_gradient(const at::Tensor& dy, const at::Tensor& x);

/// Whether the first product of a shape measures which algorithm is fastest,
/// on by default. Off, and with LibTorch's deterministic algorithms, the
/// library's first choice is taken, and runs repeat bit for bit.
void set_gemm_tuning(bool on);

}  // namespace accelerate::cuda
