// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/ops.h"

#include <mutex>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/graph_random_state.h"
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/norm.h"
#include "cuda/kernels/residual.h"

namespace accelerate::cuda {
namespace {

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

float* floats(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}
void* bytes(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

at::Tensor make_floats(const at::Tensor& like, std::int64_t count) {
  return at::empty({count}, like.options().dtype(at::kFloat));
}

}  // namespace

kernels::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return kernels::Type::bf16;
    case at::kHalf:
      return kernels::Type::f16;
    case at::kFloat:
      return kernels::Type::f32;
    default:
      throw ArgumentError(
          str_cat("no kernel supports the type ", tensor.scalar_type()));
  }
}

kernels::Dropout draw_dropout(double rate) {
  if (rate <= 0.0) {
    return {};
  }
  auto generator = at::cuda::detail::getDefaultCUDAGenerator();
  auto* const random = at::check_generator<at::CUDAGeneratorImpl>(generator);
  const std::lock_guard lock(random->mutex_);
  // Each vector of elements has its own 64-bit counter, so it is enough to
  // advance the generator's offset by one step, which is 4.
  const at::PhiloxCudaState state = random->philox_cuda_state(4);
  kernels::Dropout dropout = {.rate = static_cast<float>(rate), .random = {}};
  if (state.captured_) {
    dropout.random = {
        state.seed_.ptr, state.offset_.ptr, 0, state.offset_intragraph_};
    if (GraphRandomState* const graph = GraphRandomState::current()) {
      dropout.random = graph->copy_of(dropout.random);
    }
  } else {
    dropout.random = {nullptr, nullptr, state.seed_.val, state.offset_.val};
  }
  return dropout;
}

NormResult norm(const NormInput& input) {
  const std::int64_t rows = input.x.size(0);
  const std::int64_t width = input.x.size(1);
  const bool is_rms = !input.shift.defined();
  const bool changes = input.residual.defined() || input.bias.defined() ||
                       input.dropout.rate > 0.0F;
  NormResult result = {
      at::empty_like(input.x),
      changes ? at::empty_like(input.x) : input.x,
      is_rms ? at::Tensor() : make_floats(input.x, rows),
      make_floats(input.x, rows)};
  kernels::norm_forward(
      {.type = type_of(input.x),
       .rows = rows,
       .width = width,
       .x = bytes(input.x),
       .bias = floats(input.bias),
       .residual = bytes(input.residual),
       .dropout = input.dropout,
       .weight = floats(input.weight),
       .shift = floats(input.shift),
       .is_rms = is_rms,
       .eps = static_cast<float>(input.eps),
       .sum = changes ? bytes(result.sum) : nullptr,
       .y = bytes(result.y),
       .mean = floats(result.mean),
       .rstd = floats(result.rstd)},
      stream());
  return result;
}

NormGradients norm_gradients(
    const at::Tensor& dy,
    const at::Tensor& d_extra,
    const NormSaved& saved,
    SideStream& side_stream) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t width = dy.size(1);
  const bool has_dropout = saved.dropout.rate > 0.0F;
  NormGradients g;
  g.d_sum = at::empty_like(dy);
  g.dx = has_dropout ? at::empty_like(dy) : g.d_sum;
  g.d_weight = make_floats(dy, width);
  g.d_shift = saved.mean.defined() ? make_floats(dy, width) : at::Tensor();
  g.d_bias = saved.has_bias ? make_floats(dy, width) : at::Tensor();
  const auto workspace = make_floats(dy, kernels::norm_workspace(rows, width));
  const kernels::NormBackward work = {
      .type = type_of(dy),
      .rows = rows,
      .width = width,
      .dy = bytes(dy),
      .sum = bytes(saved.sum),
      .d_extra = bytes(d_extra),
      .weight = floats(saved.weight),
      .mean = floats(saved.mean),
      .rstd = floats(saved.rstd),
      .dropout = saved.dropout,
      .d_sum = bytes(g.d_sum),
      .dx = has_dropout ? bytes(g.dx) : nullptr,
      .d_weight = floats(g.d_weight),
      .d_shift = floats(g.d_shift),
      .d_bias = floats(g.d_bias),
      .workspace = floats(workspace)};
  kernels::norm_backward(work, stream());
  side_stream.keep_alive(workspace);
  side_stream.run([&] { kernels::norm_backward_sums(work, stream()); });
  return g;
}

at::Tensor bias_activation(
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation) {
  at::Tensor y = at::empty_like(x);
  kernels::bias_activation_forward(
      {type_of(x), activation, x.size(0), x.size(1), bytes(x), floats(bias)},
      bytes(y),
      stream());
  return y;
}

std::tuple<at::Tensor, at::Tensor> bias_activation_gradients(
    const at::Tensor& dy,
    const at::Tensor& x,
    const at::Tensor& bias,
    kernels::Activation activation,
    SideStream& side_stream) {
  const std::int64_t rows = x.size(0);
  const std::int64_t width = x.size(1);
  const auto d_bias = make_floats(x, width);
  const auto workspace =
      make_floats(x, kernels::column_sum_workspace(rows, width));
  kernels::bias_activation_backward(
      {type_of(x), activation, rows, width, bytes(x), floats(bias)},
      bytes(dy),
      bytes(dy),
      floats(workspace),
      stream());
  finish_column_sum(rows, width, workspace, d_bias, side_stream);
  return {dy, d_bias};
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  const std::int64_t width = gate_up.size(1) / 2;
  at::Tensor y = at::empty({gate_up.size(0), width}, gate_up.options());
  kernels::swiglu_forward(
      type_of(y), bytes(gate_up), bytes(y), y.size(0), width, stream());
  return y;
}

at::Tensor swiglu_gradient(const at::Tensor& dy, const at::Tensor& gate_up) {
  at::Tensor d_gate_up = at::empty_like(gate_up);
  kernels::swiglu_backward(
      type_of(dy),
      bytes(gate_up),
      bytes(dy),
      bytes(d_gate_up),
      dy.size(0),
      dy.size(1),
      stream());
  return d_gate_up;
}

at::Tensor residual_dropout(
    const at::Tensor& x,
    const at::Tensor& bias,
    const at::Tensor& residual,
    const kernels::Dropout& dropout) {
  at::Tensor y = at::empty_like(x);
  kernels::residual_forward(
      {type_of(x),
       x.size(0),
       x.size(1),
       bytes(x),
       floats(bias),
       bytes(residual),
       dropout},
      bytes(y),
      stream());
  return y;
}

std::tuple<at::Tensor, at::Tensor> residual_dropout_gradients(
    const at::Tensor& dy,
    const kernels::Dropout& dropout,
    SideStream& side_stream) {
  const std::int64_t rows = dy.size(0);
  const std::int64_t width = dy.size(1);
  at::Tensor dx = at::empty_like(dy);
  const auto d_bias = make_floats(dy, width);
  const auto workspace =
      make_floats(dy, kernels::column_sum_workspace(rows, width));
  kernels::residual_backward(
      {type_of(dy), rows, width, nullptr, nullptr, nullptr, dropout},
      bytes(dy),
      bytes(dx),
      floats(workspace),
      stream());
  finish_column_sum(rows, width, workspace, d_bias, side_stream);
  return {dx, d_bias};
}

void finish_column_sum(
    std::int64_t rows,
    std::int64_t width,
    const at::Tensor& workspace,
    const at::Tensor& out,
    SideStream& side_stream) {
  side_stream.keep_alive(workspace);
  side_stream.run([&] {
    kernels::finish_column_sum(
        rows, width, floats(workspace), floats(out), stream());
  });
}

at::Tensor column_sum(const at::Tensor& x, SideStream& side_stream) {
  const std::int64_t rows = x.size(0);
  const std::int64_t width = x.size(1);
  at::Tensor out = make_floats(x, width);
  const auto workspace =
      make_floats(x, kernels::column_sum_workspace(rows, width));
  side_stream.keep_alive(workspace);
  side_stream.keep_alive(x);
  side_stream.run([&] {
    kernels::column_sum(
        type_of(x),
        bytes(x),
        rows,
        width,
        x.stride(0),
        floats(out),
        floats(workspace),
        stream());
  });
  return out;
}

}  // namespace accelerate::cuda
