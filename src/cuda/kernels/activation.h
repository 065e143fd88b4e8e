// SPDX-License-Identifier: Apache-2.0
// The activation functions between the two GEMMs of a feed-forward layer.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

enum class Activation { gelu_erf, gelu_tanh };

/// The input of y = activation(x + bias), where x and y are [N, D]. If `bias`
/// is null, no bias is added.
struct BiasActivation {
  Type type = Type::bf16;
  Activation activation = Activation::gelu_erf;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* x = nullptr;
  const float* bias = nullptr;
};

/// Computes `y`, which may be the same memory as `x`.
void bias_activation_forward(
    const BiasActivation& work, void* y, cudaStream_t stream);

/// Computes `dx` from `dy` and the `x` of forward. `dx` may be the same memory
/// as `dy`. `workspace` must have `column_sum_workspace(rows, width)` floats
/// and receives the partial sums of the bias gradient. Afterwards, the caller
/// must call `finish_column_sum`, on any stream, to add up the partial sums.
void bias_activation_backward(
    const BiasActivation& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream);

/// Computes y = silu(gate) * up. Each row of `gate_up`, [N, 2 * D], holds gate,
/// then up. `y` is [N, D].
void swiglu_forward(
    Type type,
    const void* gate_up,
    void* y,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream);

/// Computes the gradient of `gate_up`. `d_gate_up` may be the same memory as
/// `gate_up`.
void swiglu_backward(
    Type type,
    const void* gate_up,
    const void* dy,
    void* d_gate_up,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
