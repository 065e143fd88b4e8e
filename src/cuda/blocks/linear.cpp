// SPDX-License-Identifier: Apache-2.0
//
// Shapes: N rows, D width, E outputs.
#include "cuda/blocks/linear.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "cuda/blocks/backward_start.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"
#include "cuda/kernels/narrow_linear.h"

namespace accelerate::cuda {
namespace {

using kernels::NarrowLinear;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns `x` in bf16 with contiguous rows and any row stride; as a view if
// possible.
at::Tensor rows_of(const at::Tensor& x) {
  const at::Tensor rows =
      x.detach().reshape({-1, x.size(-1)}).to(at::kBFloat16);
  return rows.size(1) > 1 && rows.stride(1) != 1 ? rows.contiguous() : rows;
}

std::vector<std::int64_t> sizes_with(const at::Tensor& x, std::int64_t last) {
  auto sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

const float* floats(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    const at::Tensor rows = rows_of(x);
    const at::Tensor bf16_copy = low_precision_copy_of(weight);
    context->save_for_backward({rows, bf16_copy});
    context->saved_data["sizes"] = x.sizes().vec();
    context->saved_data["type"] = x.scalar_type();
    context->saved_data["has_bias"] = bias.has_value();
    const at::Tensor y = gemm(
        rows,
        bf16_copy,
        {.transpose_b = true,
         .bias = bias ? low_precision_copy_of(*bias) : at::Tensor()});
    return y.view(sizes_with(x, weight.size(0)));
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    record_backward_start();
    const variable_list s = context->get_saved_variables();
    const at::Tensor dy = as_rows(d[0]);
    SideStream side_stream(false);
    return {
        gemm(dy, s[1])
            .view(context->saved_data["sizes"].toIntVector())
            .to(context->saved_data["type"].toScalarType()),
        gemm_weight_gradient(dy, s[0]),
        context->saved_data["has_bias"].toBool() ? column_sum(dy, side_stream)
                                                 : at::Tensor()};
  }
};

class NarrowLinearFunction
    : public torch::autograd::Function<NarrowLinearFunction> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    const at::Tensor rows = rows_of(x);
    const at::Tensor w = weight.detach().contiguous();
    context->save_for_backward({rows, w});
    context->saved_data["sizes"] = x.sizes().vec();
    context->saved_data["type"] = x.scalar_type();
    context->saved_data["has_bias"] = bias.has_value();
    const at::Tensor y = at::empty(sizes_with(x, w.size(0)), w.options());
    kernels::narrow_linear(
        work_of(rows, w, bias ? bias->detach().contiguous() : at::Tensor()),
        y.data_ptr<float>(),
        stream());
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    record_backward_start();
    const variable_list s = context->get_saved_variables();
    const at::Tensor dy = d[0].detach().to(at::kFloat).contiguous();
    const at::Tensor dx = at::empty(s[0].sizes(), s[0].options());
    const at::Tensor d_weight = at::empty(s[1].sizes(), s[1].options());
    const at::Tensor d_bias = context->saved_data["has_bias"].toBool()
                                  ? at::empty({s[1].size(0)}, s[1].options())
                                  : at::Tensor();
    kernels::narrow_linear_backward(
        work_of(s[0], s[1], {}),
        {.dy = floats(dy),
         .dx = dx.data_ptr(),
         .d_weight = d_weight.data_ptr<float>(),
         .d_bias = d_bias.defined() ? d_bias.data_ptr<float>() : nullptr},
        stream());
    return {
        dx.view(context->saved_data["sizes"].toIntVector())
            .to(context->saved_data["type"].toScalarType()),
        d_weight,
        d_bias};
  }

 private:
  static NarrowLinear work_of(
      const at::Tensor& rows, const at::Tensor& w, const at::Tensor& bias) {
    return {
        .type = type_of(rows),
        .rows = rows.size(0),
        .width = rows.size(1),
        .outputs = static_cast<int>(w.size(0)),
        .x = rows.const_data_ptr(),
        .stride = rows.stride(0),
        .weight = floats(w),
        .bias = floats(bias)};
  }
};

}  // namespace

at::Tensor linear(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const std::int64_t rows = x.numel() / std::max<std::int64_t>(x.size(-1), 1);
  if (weight.size(0) <= NarrowLinear::kMaxOutputs &&
      rows <= NarrowLinear::kMaxRows) {
    return NarrowLinearFunction::apply(x, weight, if_defined(bias));
  }
  // cuBLASLt needs bf16 rows whose size is a multiple of 16 bytes.
  if (weight.size(0) % 8 != 0 || weight.size(1) % 8 != 0) {
    return at::linear(x, weight, bias);
  }
  return Linear::apply(x, weight, if_defined(bias));
}

}  // namespace accelerate::cuda
