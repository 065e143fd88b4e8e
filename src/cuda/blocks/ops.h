// SPDX-License-Identifier: Apache-2.0
// Our kernels on tensors: outputs are made here, work is queued on the current
// stream. Matrices are [N, D], contiguous; parameters are fp32.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "cuda/blocks/aside.h"
#include "cuda/kernels/activation.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/types.h"

namespace accelerate::cuda {

/// Throws `ArgumentError` for a type that no kernel has.
kernels::Type type_of(const at::Tensor& tensor);

/// Dropout of `rate` with the next numbers of LibTorch's CUDA generator; a
/// captured graph draws new ones in each replay.
kernels::Dropout draw_dropout(double rate);

struct NormResult {
  at::Tensor y;
  at::Tensor sum;  ///< What was normed; backward wants it.
  at::Tensor mean;
  at::Tensor rstd;
};

struct NormInput {
  at::Tensor x = {};
  at::Tensor bias = {};      ///< May be undefined.
  at::Tensor residual = {};  ///< May be undefined.
  kernels::Dropout dropout = {};
  at::Tensor weight = {};
  at::Tensor shift = {};  ///< Undefined: RMSNorm.
  double eps = 1e-5;
};

NormResult norm(const NormInput& input);

struct NormGradients {
  at::Tensor d_sum;
  at::Tensor dx;  ///< `d_sum` itself without dropout.
  at::Tensor d_weight;
  at::Tensor d_shift;
  at::Tensor d_bias;
};

struct NormSaved {
  at::Tensor sum;
  at::Tensor mean;  ///< Undefined: RMSNorm.
  at::Tensor rstd;
  at::Tensor weight;
  kernels::Dropout dropout;
  bool has_bias = false;
};

/// `d_extra`: gradient of the sum from elsewhere; may be undefined. Those of
/// the parameters are made aside, here and below.
NormGradients norm_gradients(
    const at::Tensor& dy,
    const at::Tensor& d_extra,
    const NormSaved& saved,
    Aside& aside);

at::Tensor bias_activation(
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation);
/// Returns dx, which takes dy's place, and the bias' gradient.
std::tuple<at::Tensor, at::Tensor> bias_activation_gradients(
    const at::Tensor& dy,
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation,
    Aside& aside);

at::Tensor swiglu(const at::Tensor& gate_up);
at::Tensor swiglu_gradient(const at::Tensor& dy, const at::Tensor& gate_up);

at::Tensor residual_dropout(
    const at::Tensor& x,
    const at::Tensor& bias,
    const at::Tensor& residual,
    const kernels::Dropout& dropout);
/// Returns dx and the bias' gradient.
std::tuple<at::Tensor, at::Tensor> residual_dropout_gradients(
    const at::Tensor& dy, const kernels::Dropout& dropout, Aside& aside);

at::Tensor column_sum(const at::Tensor& x, Aside& aside);
/// The second half of it, into `out`: a kernel has left the parts in
/// `workspace`.
void finish_column_sum(
    std::int64_t rows,
    std::int64_t width,
    const at::Tensor& workspace,
    const at::Tensor& out,
    Aside& aside);

}  // namespace accelerate::cuda
