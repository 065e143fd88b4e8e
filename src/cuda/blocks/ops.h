// SPDX-License-Identifier: Apache-2.0
// Functions that call this library's kernels with tensors. They allocate the
// outputs and launch the kernels on the current stream. Matrices are [N, D] and
// contiguous; parameters are fp32.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "cuda/blocks/side_stream.h"
#include "cuda/kernels/activation.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/types.h"

namespace accelerate::cuda {

/// Returns the `kernels::Type` for the tensor's type. Throws `ArgumentError` if
/// no kernel supports the type.
kernels::Type type_of(const at::Tensor& tensor);

/// Returns a dropout that uses the next random numbers from LibTorch's CUDA
/// generator. In a captured CUDA graph, each replay uses new random numbers.
kernels::Dropout draw_dropout(double rate);

struct NormResult {
  at::Tensor y;
  at::Tensor sum;  ///< The input of the norm; backward needs it.
  at::Tensor mean;
  at::Tensor rstd;
};

struct NormInput {
  at::Tensor x = {};
  at::Tensor bias = {};      ///< May be undefined.
  at::Tensor residual = {};  ///< May be undefined.
  kernels::Dropout dropout = {};
  at::Tensor weight = {};
  at::Tensor shift = {};  ///< Undefined for RMSNorm.
  double eps = 1e-5;
};

NormResult norm(const NormInput& input);

struct NormGradients {
  at::Tensor d_sum;
  at::Tensor dx;  ///< Without dropout, `d_sum` itself.
  at::Tensor d_weight;
  at::Tensor d_shift;
  at::Tensor d_bias;
};

struct NormSaved {
  at::Tensor sum;
  at::Tensor mean;  ///< Undefined for RMSNorm.
  at::Tensor rstd;
  at::Tensor weight;
  kernels::Dropout dropout;
  bool has_bias = false;
};

/// Computes the gradients of `norm`. `d_extra` is another gradient of the
/// norm's input and is added to `d_sum`; it may be undefined. The gradients of
/// the parameters are computed on the side stream.
NormGradients norm_gradients(
    const at::Tensor& dy,
    const at::Tensor& d_extra,
    const NormSaved& saved,
    SideStream& side_stream);

at::Tensor bias_activation(
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation);
/// Returns `dx` and the gradient of the bias. `dx` uses the memory of `dy`,
/// which is overwritten.
std::tuple<at::Tensor, at::Tensor> bias_activation_gradients(
    const at::Tensor& dy,
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation,
    SideStream& side_stream);

at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_gradient(const at::Tensor& dy, const at::Tensor& gate_up);

at::Tensor residual_dropout(
    const at::Tensor& x,
    const at::Tensor& bias,
    const at::Tensor& residual,
    const kernels::Dropout& dropout);
/// Returns `dx` and the gradient of the bias.
std::tuple<at::Tensor, at::Tensor> residual_dropout_gradients(
    const at::Tensor& dy,
    const kernels::Dropout& dropout,
    SideStream& side_stream);

at::Tensor column_sum(const at::Tensor& x, SideStream& side_stream);
/// Adds up the partial column sums that a kernel has written to `workspace`,
/// and writes the result to `out`. Runs on the side stream.
void finish_column_sum(
    std::int64_t rows,
    std::int64_t width,
    const at::Tensor& workspace,
    const at::Tensor& out,
    SideStream& side_stream);

}  // namespace accelerate::cuda
