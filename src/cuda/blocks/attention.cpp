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

kernels::RotaryEmbedding rotary_of(
    const at::Tensor& cos, const at::Tensor& sin) {
  if (!cos.defined()) {
    return {};
  }
  return {
      cos.data_ptr<float>(),
      sin.data_ptr<float>(),
      cos.size(0) > 1 ? cos.stride(0) : 0};
}

// Returns views of the queries, keys and values, [B, heads, T, K].
std::array<at::Tensor, 3> split_heads(
    const at::Tensor& qkv, const AttentionSizes& s) {
  const auto all =
      qkv.view({s.batch, s.tokens, -1, s.head_dim}).transpose(1, 2);
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

// With deterministic algorithms, cuDNN is not used, because its backward does
// not sum in a fixed order.
bool is_deterministic() {
  return at::globalContext().deterministicAlgorithms();
}

// Repeats each key or value head for the query heads that share it.
at::Tensor repeat_kv_heads(const at::Tensor& keys, const AttentionSizes& s) {
  return s.query_heads == s.key_heads
             ? keys
             : keys.repeat_interleave(s.query_heads / s.key_heads, 1);
}

at::Tensor sum_repeated_heads(
    const at::Tensor& d_keys, const AttentionSizes& s) {
  return s.query_heads == s.key_heads
             ? d_keys
             : d_keys.unflatten(1, {s.key_heads, -1}).sum(2);
}

at::Tensor expand_bias(const at::Tensor& bias, const AttentionSizes& s) {
  return bias.expand({s.batch, s.query_heads, s.tokens, s.tokens});
}

at::Tensor as_rows(const at::Tensor& heads, const AttentionSizes& s) {
  return heads.transpose(1, 2).reshape(
      {s.batch * s.tokens, s.query_heads * s.head_dim});
}

AttentionGradients pack_qkv_gradients(
    const at::Tensor& dq,
    const at::Tensor& dk,
    const at::Tensor& dv,
    const at::Tensor& qkv,
    const kernels::RotaryEmbedding& rotary,
    const AttentionSizes& s,
    SideStream& side_stream) {
  const at::Tensor d_qkv = at::empty_like(qkv);
  const auto sizes = kernel_sizes(s, qkv);
  if (rotary.cos == nullptr) {
    const std::int64_t rows = qkv.size(0);
    const std::int64_t width = qkv.size(1);
    const auto floats = qkv.options().dtype(at::kFloat);
    const at::Tensor workspace =
        at::empty({kernels::column_sum_workspace(rows, width)}, floats);
    if (kernels::pack_and_sum_gradients(
            sizes,
            view_of(dq),
            view_of(dk),
            view_of(dv),
            d_qkv.data_ptr(),
            workspace.data_ptr<float>(),
            stream())) {
      const at::Tensor d_bias = at::empty({width}, floats);
      finish_column_sum(rows, width, workspace, d_bias, side_stream);
      return {d_qkv, d_bias};
    }
  }
  kernels::pack_gradients(
      sizes,
      view_of(dq),
      view_of(dk),
      view_of(dv),
      rotary,
      d_qkv.data_ptr(),
      stream());
  return {d_qkv, {}};
}

// Whether the bias is the same for all queries.
bool is_key_bias(const at::Tensor& bias) {
  return !bias.defined() ||
         (bias.size(1) == 1 && (bias.stride(2) == 0 || bias.size(2) == 1));
}

bool is_short(
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const at::Tensor& cos,
    const AttentionOptions& options) {
  const AttentionSizes& s = options.sizes;
  return !options.is_causal && !cos.defined() && s.query_heads == s.key_heads &&
         is_key_bias(bias) &&
         supports_variable_lengths(qkv.scalar_type(), s.tokens, s.head_dim);
}

kernels::ShortAttention short_attention_work(
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const AttentionOptions& options,
    const kernels::Dropout& dropout) {
  const AttentionSizes& s = options.sizes;
  return {
      .type = kernel_type(qkv.scalar_type()),
      .sequences = s.batch,
      .tokens = s.tokens,
      .heads = static_cast<int>(s.query_heads),
      .head_dim = static_cast<int>(s.head_dim),
      .sequence_offsets = options.sequence_offsets.defined()
                              ? options.sequence_offsets.data_ptr<int>()
                              : nullptr,
      .key_bias = bias.defined() ? bias.data_ptr() : nullptr,
      .key_bias_stride = bias.defined() ? bias.stride(0) : 0,
      .scale = static_cast<float>(options.scale),
      .dropout = dropout,
      .qkv = qkv.data_ptr()};
}

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw InternalError(str_cat("attention: ", cudaGetErrorString(status)));
  }
}

AttentionState short_attention(
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const AttentionOptions& options) {
  const AttentionSizes& s = options.sizes;
  AttentionState state;
  state.out =
      at::empty({qkv.size(0), s.query_heads * s.head_dim}, qkv.options());
  state.logsumexp =
      at::empty({qkv.size(0), s.query_heads}, qkv.options().dtype(at::kFloat));
  state.dropout = draw_dropout(options.dropout);
  check(kernels::short_attention_forward(
      short_attention_work(qkv, bias, options, state.dropout),
      state.out.data_ptr(),
      state.logsumexp.data_ptr<float>(),
      stream()));
  return state;
}

AttentionGradients short_attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& qkv,
    const at::Tensor& bias,
    const AttentionState& state,
    const AttentionOptions& options,
    SideStream& side_stream) {
  const std::int64_t width = qkv.size(1);
  const std::int64_t sequences = options.sizes.batch;
  const auto floats = qkv.options().dtype(at::kFloat);
  AttentionGradients g = {at::empty_like(qkv), at::empty({width}, floats)};
  const at::Tensor sums = at::empty({sequences, width}, floats);
  check(kernels::short_attention_backward(
      short_attention_work(qkv, bias, options, state.dropout),
      state.out.data_ptr(),
      state.logsumexp.data_ptr<float>(),
      d_out.data_ptr(),
      g.d_qkv.data_ptr(),
      sums.data_ptr<float>(),
      stream()));
  side_stream.keep_alive(sums);
  side_stream.run([&] {
    kernels::reduce_partial_sums(
        sums.data_ptr<float>(),
        sequences,
        1,
        width,
        {{g.d_bias.data_ptr<float>()}},
        stream());
  });
  return g;
}

// cuDNN and its deterministic replacement need a contiguous bias.
at::Tensor contiguous_bias(const at::Tensor& bias) {
  return bias.defined() ? bias.contiguous() : bias;
}

}  // namespace

// The limits of cuDNN.
bool supports_heads(std::int64_t head_dim) {
  return head_dim % 8 == 0 && head_dim <= 128;
}

// cuDNN has no kernel for fewer than eight tokens, and its deterministic
// replacement needs aligned mask rows.
bool supports_length(std::int64_t tokens) {
  return tokens >= 8 &&
         (!at::globalContext().deterministicAlgorithms() || tokens % 8 == 0);
}

bool supports_variable_lengths(
    at::ScalarType type, std::int64_t tokens, std::int64_t head_dim) {
  return type != at::kFloat &&
         kernels::supports_short_attention(kernel_type(type), tokens, head_dim);
}

AttentionState attention(
    const at::Tensor& qkv,
    const at::Tensor& mask_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionOptions& options) {
  if (is_short(qkv, mask_bias, cos, options)) {
    return short_attention(qkv, mask_bias, options);
  }
  const at::Tensor bias = contiguous_bias(mask_bias);
  const AttentionSizes& s = options.sizes;
  if (cos.defined()) {
    kernels::apply_rotary_embedding(
        kernel_sizes(s, qkv), qkv.data_ptr(), rotary_of(cos, sin), stream());
  }
  const auto [q, k, v] = split_heads(qkv, s);
  if (is_deterministic()) {
    auto result = at::_scaled_dot_product_efficient_attention(
        q,
        repeat_kv_heads(k, s),
        repeat_kv_heads(v, s),
        bias.defined() ? std::optional(expand_bias(bias, s)) : std::nullopt,
        /*compute_log_sumexp=*/true,
        options.dropout,
        options.is_causal,
        options.scale);
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
      options.dropout,
      options.is_causal,
      /*return_debug_mask=*/false,
      options.scale);
  return {
      as_rows(std::get<0>(result), s),
      std::get<1>(result),
      std::get<6>(result),
      std::get<7>(result),
      {}};
}

AttentionGradients attention_gradients(
    const at::Tensor& d_out,
    const at::Tensor& qkv,
    const at::Tensor& mask_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const AttentionState& state,
    const AttentionOptions& options,
    SideStream& side_stream) {
  if (is_short(qkv, mask_bias, cos, options)) {
    return short_attention_gradients(
        d_out, qkv, mask_bias, state, options, side_stream);
  }
  const at::Tensor bias = contiguous_bias(mask_bias);
  const AttentionSizes& s = options.sizes;
  const auto [q, k, v] = split_heads(qkv, s);
  const auto as_heads = [&](const at::Tensor& rows) {
    return rows.view({s.batch, s.tokens, s.query_heads, s.head_dim})
        .transpose(1, 2);
  };
  if (is_deterministic()) {
    auto [dq, dk, dv, d_bias] =
        at::_scaled_dot_product_efficient_attention_backward(
            as_heads(d_out),
            q,
            repeat_kv_heads(k, s),
            repeat_kv_heads(v, s),
            bias.defined() ? expand_bias(bias, s) : bias,
            as_heads(state.out),
            state.logsumexp,
            state.seed,
            state.offset,
            options.dropout,
            {true, true, true, false},
            options.is_causal,
            options.scale);
    return pack_qkv_gradients(
        dq,
        sum_repeated_heads(dk, s),
        sum_repeated_heads(dv, s),
        qkv,
        rotary_of(cos, sin),
        s,
        side_stream);
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
      options.dropout,
      options.is_causal,
      options.scale);
  return pack_qkv_gradients(
      dq, dk, dv, qkv, rotary_of(cos, sin), s, side_stream);
}

}  // namespace accelerate::cuda
