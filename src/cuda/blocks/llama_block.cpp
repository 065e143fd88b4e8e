// SPDX-License-Identifier: Apache-2.0
//
// Shapes: N = B T rows, D width, I inner width.
#include "cuda/blocks/llama_block.h"

#include <cmath>

#include "cuda/blocks/attention.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"
#include "cuda/blocks/shadows.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum Parameter {
  kNorm1W,
  kQueryW,
  kKeyW,
  kValueW,
  kOutW,
  kNorm2W,
  kGateW,
  kUpW,
  kDownW,
  kParameters
};

enum Saved {
  kX,
  kMask,
  kCos,
  kSin,
  kRstd1,
  kY1,
  kPacked,
  kMixed,
  kLogSumExp,
  kSeed,
  kOffset,
  kSum2,
  kRstd2,
  kY2,
  kGateUp,
  kInner,
  kPackedShadow,
  kOutShadow,
  kGateUpShadow,
  kDownShadow,
  kNorm1,
  kNorm2,
  kSavedCount
};

AttentionSettings attention_settings(
    std::int64_t batch,
    std::int64_t tokens,
    std::int64_t head_dim,
    const LlamaBlockOptions& options,
    bool is_causal) {
  return {
      {batch, tokens, options.query_heads, options.key_heads, head_dim},
      options.attention_dropout,
      1.0 / std::sqrt(static_cast<double>(head_dim)),
      is_causal};
}

class LlamaBlock : public torch::autograd::Function<LlamaBlock> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x_BTD,
      const std::optional<at::Tensor>& mask,
      const at::Tensor& cos,
      const at::Tensor& sin,
      const LlamaBlockOptions& options,
      at::TensorList p) {
    const at::Tensor mask_bias = mask.value_or(at::Tensor());
    const auto settings = attention_settings(
        x_BTD.size(0),
        x_BTD.size(1),
        p[kQueryW].size(0) / options.query_heads,
        options,
        !mask_bias.defined());
    const GemmOptions transposed = {.transpose_b = true};
    variable_list s(kSavedCount);
    s[kX] = as_rows(x_BTD);
    s[kMask] = mask_bias;
    s[kCos] = cos;
    s[kSin] = sin;
    s[kPackedShadow] = shadow_of({p[kQueryW], p[kKeyW], p[kValueW]});
    s[kOutShadow] = shadow_of(p[kOutW]);
    s[kGateUpShadow] = shadow_of({p[kGateW], p[kUpW]});
    s[kDownShadow] = shadow_of(p[kDownW]);
    s[kNorm1] = p[kNorm1W].detach();
    s[kNorm2] = p[kNorm2W].detach();

    const auto first =
        norm({.x = s[kX], .weight = s[kNorm1], .eps = options.rms_norm_eps});
    s[kRstd1] = first.rstd;
    s[kY1] = first.y;
    s[kPacked] = gemm(s[kY1], s[kPackedShadow], transposed);
    const auto mixed = attention(s[kPacked], mask_bias, cos, sin, settings);
    s[kMixed] = mixed.out;
    s[kLogSumExp] = mixed.logsumexp;
    s[kSeed] = mixed.seed;
    s[kOffset] = mixed.offset;
    s[kSum2] =
        gemm(s[kMixed], s[kOutShadow], {.transpose_b = true, .add = s[kX]});
    const auto second =
        norm({.x = s[kSum2], .weight = s[kNorm2], .eps = options.rms_norm_eps});
    s[kRstd2] = second.rstd;
    s[kY2] = second.y;
    s[kGateUp] = gemm(s[kY2], s[kGateUpShadow], transposed);
    s[kInner] = swiglu(s[kGateUp]);
    const auto y =
        gemm(s[kInner], s[kDownShadow], {.transpose_b = true, .add = s[kSum2]});

    context->save_for_backward(s);
    context->saved_data["batch"] = x_BTD.size(0);
    context->saved_data["head_dim"] = settings.sizes.head_dim;
    context->saved_data["query_heads"] = options.query_heads;
    context->saved_data["key_heads"] = options.key_heads;
    context->saved_data["attention_dropout"] = options.attention_dropout;
    return y.view(x_BTD.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list s = context->get_saved_variables();
    const std::int64_t rows = s[kX].size(0);
    const std::int64_t batch = context->saved_data["batch"].toInt();
    const LlamaBlockOptions options = {
        .query_heads = context->saved_data["query_heads"].toInt(),
        .key_heads = context->saved_data["key_heads"].toInt(),
        .attention_dropout =
            context->saved_data["attention_dropout"].toDouble()};
    const auto settings = attention_settings(
        batch,
        rows / std::max<std::int64_t>(batch, 1),
        context->saved_data["head_dim"].toInt(),
        options,
        !s[kMask].defined());
    variable_list g(kParameters);

    Aside aside(rows <= aside_rows());
    const auto dy = as_rows(d[0]);
    g[kDownW] = gemm_weight_gradient(dy, s[kInner]);
    const auto d_gate_up =
        swiglu_gradient(gemm(dy, s[kDownShadow]), s[kGateUp]);
    const auto d_gate_up_w = gemm_weight_gradient(d_gate_up, s[kY2]);
    const std::int64_t inner = s[kInner].size(1);
    g[kGateW] = d_gate_up_w.narrow(0, 0, inner);
    g[kUpW] = d_gate_up_w.narrow(0, inner, inner);
    const auto second = norm_gradients(
        gemm(d_gate_up, s[kGateUpShadow]),
        dy,
        {s[kSum2], {}, s[kRstd2], s[kNorm2], {}, false},
        aside);
    g[kNorm2W] = second.d_weight;
    g[kOutW] = gemm_weight_gradient(second.d_sum, s[kMixed]);
    const auto d_packed =
        attention_gradients(
            gemm(second.d_sum, s[kOutShadow]),
            s[kPacked],
            s[kMask],
            s[kCos],
            s[kSin],
            {s[kMixed], s[kLogSumExp], s[kSeed], s[kOffset], {}},
            settings,
            aside)
            .d_packed;
    const auto d_packed_w = gemm_weight_gradient(d_packed, s[kY1]);
    const std::int64_t queries = options.query_heads * settings.sizes.head_dim;
    const std::int64_t keys = options.key_heads * settings.sizes.head_dim;
    g[kQueryW] = d_packed_w.narrow(0, 0, queries);
    g[kKeyW] = d_packed_w.narrow(0, queries, keys);
    g[kValueW] = d_packed_w.narrow(0, queries + keys, keys);
    const auto first = norm_gradients(
        gemm(d_packed, s[kPackedShadow]),
        second.d_sum,
        {s[kX], {}, s[kRstd1], s[kNorm1], {}, false},
        aside);
    g[kNorm1W] = first.d_weight;
    aside.join();
    variable_list all(5);
    all[0] = first.d_sum.view({batch, -1, s[kX].size(1)});
    all.insert(all.end(), g.begin(), g.end());
    return all;
  }
};

}  // namespace

at::Tensor llama_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::vector<at::Tensor>& parameters,
    const LlamaBlockOptions& options) {
  return LlamaBlock::apply(
      x_BTD,
      if_defined(mask_bias),
      cos,
      sin,
      options,
      at::TensorList(parameters));
}

}  // namespace accelerate::cuda
