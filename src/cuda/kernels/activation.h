// SPDX-License-Identifier: Apache-2.0
// What stands between the two products of a feed-forward layer.
#pragma once

#include "cuda/kernels/types.h"

namespace accelerate::cuda::kernels {

enum class Activation { gelu_erf, gelu_tanh };

/// y = activation(x + bias), all [N, D]; a null bias is none.
struct BiasActivation {
  Type type = Type::bf16;
  Activation activation = Activation::gelu_erf;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const void* x = nullptr;
  const float* bias = nullptr;
};

/// `y` may be `x`.
void bias_activation_forward(
    const BiasActivation& work, void* y, cudaStream_t stream);

/// dx from dy and forward's x (`dx` may be `dy`). `workspace`, of
/// `column_sum_workspace(rows, width)` floats, gets the parts of the bias'
/// gradient; `column_sum_parts` adds them up, on any stream.
void bias_activation_backward(
    const BiasActivation& work,
    const void* dy,
    void* dx,
    float* workspace,
    cudaStream_t stream);

/// y = silu(gate) * up, from rows that hold gate and up side by side:
/// [N, 2 * D] to [N, D].
void swiglu_forward(
    Type type,
    const void* gate_up,
    void* y,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream);

/// `d_gate_up` may be `gate_up`.
void swiglu_backward(
    Type type,
    const void* gate_up,
    const void* dy,
    void* d_gate_up,
    std::int64_t rows,
    std::int64_t width,
    cudaStream_t stream);

}  // namespace accelerate::cuda::kernels
