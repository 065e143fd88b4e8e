// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/attention.h"

#include <array>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/ops.h"
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/short_attention.h"

namespace accelerate::cuda {
namespace {

kernels::Type kernel_type(at::ScalarType type) {
  return type == at::kBFloat16 ? kernels::Type::bf16 : kernels::Type::f16;
}

kernels::HeadSizes kernel_sizes(
    const AttentionSizes& s, const at::Tensor& like) {
  return {
      kernel_type(like.scalar_type()),
      s.batch,
      s.tokens,
      static_cast<int>(s.query_heads),
      static_cast<int>(s.key_heads),
      static_cast<int>(s.head_dim)};
}

kernels::Rotation rotation_of(const at::Tensor& cos, const at::Tensor& sin) {
  if (!cos.defined()) {
    return {};
  }
  return {
      cos.data_ptr<float>(),
      sin.data_ptr<float>(),
      cos.size(0) > 1 ? cos.stride(0) : 0};
}

// Queries, keys and values where they lie, as [B, heads, T, K].
std::array<at::Tensor, 3> in_heads(
    const at::Tensor& packed, const AttentionSizes& s) {
  const auto all =
      packed.view({s.batch, s.tokens, -1, s.head_dim}).transpose(1, 2);
  return {
      all.narrow(1, 0, s.query_heads),
      all.narrow(1, s.query_heads, s.key_heads),
      all.narrow(1, s.query_heads + s.key_heads, s.key_heads)};
}

kernels::HeadsView view_of(const at::Tensor& tensor) {
  return {
      tensor.data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

// cuDNN's backward adds in any order.
bool has_to_repeat() {
  return at::globalContext().deterministicAlgorithms();
}

// Heads of keys, each as often as queries share it.
at::Tensor of_all_heads(const at::Tensor& keys, const AttentionSizes& s) {
  return s.query_heads == s.key_heads
             ? keys
             : keys.repeat_interleave(s.query_heads / s.key_heads, 1);
}

at::Tensor sum_over_group(const at::Tensor& d_keys, const AttentionSizes& s) {
  return s.query_heads == s.key_heads
             ? d_keys
             : d_keys.unflatten(1, {s.key_heads, -1}).sum(2);
}

at::Tensor of_all_rows(const at::Tensor& bias, const AttentionSizes& s) {
  return bias.expand({s.batch, s.query_heads, s.tokens, s.tokens});
}

at::Tensor as_rows(const at::Tensor& heads, const AttentionSizes& s) {
  return heads.transpose(1, 2).reshape(
      {s.batch * s.tokens, s.query_heads * s.head_dim});
}

AttentionGradients packed_gradients(
    const at::Tensor& dq,
    const at::Tensor& dk,
    const at::Tensor& dv,
    const at::Tensor& packed,
    const kernels::Rotation& rotation,
    const AttentionSizes& s,
    Aside& aside) {
  const at::Tensor d_packed = at::empty_like(packed);
  const auto sizes = kernel_sizes(s, packed);
  if (rotation.cos == nullptr) {
    const std::int64_t rows = packed.size(0);
    const std::int64_t width = packed.size(1);
    const auto floats = packed.options().dtype(at::kFloat);
    const at::Tensor workspace =
        at::empty({kernels::column_sum_workspace(rows, width)}, floats);
    if (kernels::pack_and_sum_gradients(
            sizes,
            view_of(dq),
            view_of(dk),
            view_of(dv),
            d_packed.data_ptr(),
            workspace.data_ptr<float>(),
            stream())) {
      const at::Tensor d_bias = at::empty({width}, floats);
      finish_column_sum(rows, width, workspace, d_bias, aside);
      return {d_packed, d_bias};
    }
  }
  kernels::pack_gradients(
      sizes,
      view_of(dq),
      view_of(dk),
      view_of(dv),
      rotation,
      d_packed.data_ptr(),
      stream());
  return {d_packed, {}};
}

// The same for all queries.
bool is_of_keys(const at::Tensor& bias) {
  return !bias.defined() ||
         (bias.size(1) == 1 && (bias.stride(2) == 0 || bias.size(2) == 1));
}

bool is_short(
    const at::Tensor& packed,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const AttentionSettings& settings) {
  const AttentionSizes& s = settings.sizes;
  return !settings.is_causal && !cos.defined() &&
         s.query_heads == s.key_heads && is_of_keys(bias) &&
         attends_to_sequences(packed.scalar_type(), s.tokens, s.head_dim);
}

kernels::ShortAttention short_work(
    const at::Tensor& packed,
    const at::Tensor& bias,
    const AttentionSettings& settings,
    const kernels::Dropout& dropout) {
  const AttentionSizes& s = settings.sizes;
  return {
      .type = kernel_type(packed.scalar_type()),
      .sequences = s.batch,
      .tokens = s.tokens,
      .heads = static_cast<int>(s.query_heads),
      .width = static_cast<int>(s.head_dim),
      .starts =
          settings.starts.defined() ? settings.starts.data_ptr<int>() : nullptr,
      .key_bias = bias.defined() ? bias.data_ptr() : nullptr,
      .key_bias_stride = bias.defined() ? bias.stride(0) : 0,
      .scale = static_cast<float>(settings.scale),
      .dropout = dropout,
      .packed = packed.data_ptr()};
}

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw InternalError(str_cat("attention: ", cudaGetErrorString(status)));
  }
}

AttentionState short_attention(
    const at::Tensor& packed,
    const at::Tensor& bias,
    const AttentionSettings& settings) {
  const AttentionSizes& s = settings.sizes;
  AttentionState state;
  state.out =
      at::empty({packed.size(0), s.query_heads * s.head_dim}, packed.options());
  state.logsumexp = at::empty(
      {packed.size(0), s.query_heads}, packed.options().dtype(at::kFloat));
  state.dropout = draw_dropout(settings.dropout);
  check(kernels::short_attention_forward(
      short_work(packed, bias, settings, state.dropout),
      state.out.data_ptr(),
      state.logsumexp.data_ptr<float>(),
      stream()));
  return state;
}

AttentionGradients short_attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& packed,
    const at::Tensor& bias,
    const AttentionState& state,
    const AttentionSettings& settings,
    Aside& aside) {
  const std::int64_t width = packed.size(1);
  const std::int64_t sequences = settings.sizes.batch;
  const auto floats = packed.options().dtype(at::kFloat);
  AttentionGradients g = {at::empty_like(packed), at::empty({width}, floats)};
  const at::Tensor sums = at::empty({sequences, width}, floats);
  check(kernels::short_attention_backward(
      short_work(packed, bias, settings, state.dropout),
      state.out.data_ptr(),
      state.logsumexp.data_ptr<float>(),
      d_out.data_ptr(),
      g.d_packed.data_ptr(),
      sums.data_ptr<float>(),
      stream()));
  aside.hold(sums);
  aside.run([&] {
    kernels::reduce_parts(
        sums.data_ptr<float>(),
        sequences,
        1,
        width,
        {{g.d_bias.data_ptr<float>()}},
        stream());
  });
  return g;
}

// What cuDNN and its stand-in want.
at::Tensor of_queries(const at::Tensor& bias) {
  return bias.defined() ? bias.contiguous() : bias;
}

}  // namespace

bool attends_to_sequences(
    at::ScalarType type, std::int64_t tokens, std::int64_t head_dim) {
  return type != at::kFloat &&
         kernels::can_be_short_attention(kernel_type(type), tokens, head_dim);
}

AttentionState attention(
    const at::Tensor& packed,
    const at::Tensor& given_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionSettings& settings) {
  if (is_short(packed, given_bias, cos, settings)) {
    return short_attention(packed, given_bias, settings);
  }
  const at::Tensor bias = of_queries(given_bias);
  const AttentionSizes& s = settings.sizes;
  if (cos.defined()) {
    kernels::rotate_packed(
        kernel_sizes(s, packed),
        packed.data_ptr(),
        rotation_of(cos, sin),
        stream());
  }
  const auto [q, k, v] = in_heads(packed, s);
  if (has_to_repeat()) {
    auto result = at::_scaled_dot_product_efficient_attention(
        q,
        of_all_heads(k, s),
        of_all_heads(v, s),
        bias.defined() ? std::optional(of_all_rows(bias, s)) : std::nullopt,
        /*compute_log_sumexp=*/true,
        settings.dropout,
        settings.is_causal,
        settings.scale);
    return {
        as_rows(std::get<0>(result), s),
        std::get<1>(result),
        std::get<2>(result),
        std::get<3>(result),
        {}};
  }
  auto result = at::_scaled_dot_product_cudnn_attention(
      q,
      k,
      v,
      bias.defined() ? std::optional(bias) : std::nullopt,
      /*compute_log_sumexp=*/true,
      settings.dropout,
      settings.is_causal,
      /*return_debug_mask=*/false,
      settings.scale);
  return {
      as_rows(std::get<0>(result), s),
      std::get<1>(result),
      std::get<6>(result),
      std::get<7>(result),
      {}};
}

AttentionGradients attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& packed,
    const at::Tensor& given_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionState& state,
    const AttentionSettings& settings,
    Aside& aside) {
  if (is_short(packed, given_bias, cos, settings)) {
    return short_attention_gradients(
        d_out, packed, given_bias, state, settings, aside);
  }
  const at::Tensor bias = of_queries(given_bias);
  const AttentionSizes& s = settings.sizes;
  const auto [q, k, v] = in_heads(packed, s);
  const auto as_heads = [&](const at::Tensor& rows) {
    return rows.view({s.batch, s.tokens, s.query_heads, s.head_dim})
        .transpose(1, 2);
  };
  if (has_to_repeat()) {
    auto [dq, dk, dv, d_bias] =
        at::_scaled_dot_product_efficient_attention_backward(
            as_heads(d_out),
            q,
            of_all_heads(k, s),
            of_all_heads(v, s),
            bias.defined() ? of_all_rows(bias, s) : bias,
            as_heads(state.out),
            state.logsumexp,
            state.seed,
            state.offset,
            settings.dropout,
            {true, true, true, false},
            settings.is_causal,
            settings.scale);
    return packed_gradients(
        dq,
        sum_over_group(dk, s),
        sum_over_group(dv, s),
        packed,
        rotation_of(cos, sin),
        s,
        aside);
  }
  const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      as_heads(d_out),
      q,
      k,
      v,
      as_heads(state.out),
      state.logsumexp,
      state.seed,
      state.offset,
      bias,
      {},
      {},
      s.tokens,
      s.tokens,
      settings.dropout,
      settings.is_causal,
      settings.scale);
  return packed_gradients(
      dq, dk, dv, packed, rotation_of(cos, sin), s, aside);
}

}  // namespace accelerate::cuda
