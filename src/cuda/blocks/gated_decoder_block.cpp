// SPDX-License-Identifier: Apache-2.0
//
// Shapes: N = B T rows, D width, I inner width.
#include "cuda/blocks/gated_decoder_block.h"

#include "cuda/blocks/attention.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"

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
  kQkv,
  kAttended,
  kLogSumExp,
  kSeed,
  kOffset,
  kSum2,
  kRstd2,
  kY2,
  kGateUp,
  kInner,
  kQkvBf16,
  kOutBf16,
  kGateUpBf16,
  kDownBf16,
  kNorm1,
  kNorm2,
  kSavedCount
};

AttentionOptions attention_options_of(
    std::int64_t batch,
    std::int64_t tokens,
    std::int64_t head_dim,
    const DecoderBlockOptions& options,
    bool is_causal) {
  return {
      {batch, tokens, options.query_heads, options.key_heads, head_dim},
      options.attention_dropout,
      options.attention_scale,
      is_causal};
}

class GatedDecoderBlock : public torch::autograd::Function<GatedDecoderBlock> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x_BTD,
      const std::optional<at::Tensor>& mask,
      const at::Tensor& cos,
      const at::Tensor& sin,
      const DecoderBlockOptions& options,
      at::TensorList p) {
    const at::Tensor mask_bias = mask.value_or(at::Tensor());
    const auto attention_options = attention_options_of(
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
    s[kQkvBf16] = low_precision_copy_of({p[kQueryW], p[kKeyW], p[kValueW]});
    s[kOutBf16] = low_precision_copy_of(p[kOutW]);
    s[kGateUpBf16] = low_precision_copy_of({p[kGateW], p[kUpW]});
    s[kDownBf16] = low_precision_copy_of(p[kDownW]);
    s[kNorm1] = p[kNorm1W].detach();
    s[kNorm2] = p[kNorm2W].detach();

    const auto first =
        norm({.x = s[kX], .weight = s[kNorm1], .eps = options.norm_eps});
    s[kRstd1] = first.rstd;
    s[kY1] = first.y;
    s[kQkv] = gemm(s[kY1], s[kQkvBf16], transposed);
    const auto attended =
        attention(s[kQkv], mask_bias, cos, sin, attention_options);
    s[kAttended] = attended.out;
    s[kLogSumExp] = attended.logsumexp;
    s[kSeed] = attended.seed;
    s[kOffset] = attended.offset;
    s[kSum2] =
        gemm(s[kAttended], s[kOutBf16], {.transpose_b = true, .add = s[kX]});
    const auto second =
        norm({.x = s[kSum2], .weight = s[kNorm2], .eps = options.norm_eps});
    s[kRstd2] = second.rstd;
    s[kY2] = second.y;
    s[kGateUp] = gemm(s[kY2], s[kGateUpBf16], transposed);
    s[kInner] = swiglu(s[kGateUp]);
    const auto y =
        gemm(s[kInner], s[kDownBf16], {.transpose_b = true, .add = s[kSum2]});

    context->save_for_backward(s);
    context->saved_data["batch"] = x_BTD.size(0);
    context->saved_data["head_dim"] = attention_options.sizes.head_dim;
    context->saved_data["query_heads"] = options.query_heads;
    context->saved_data["key_heads"] = options.key_heads;
    context->saved_data["attention_scale"] = options.attention_scale;
    context->saved_data["attention_dropout"] = options.attention_dropout;
    return y.view(x_BTD.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list s = context->get_saved_variables();
    const std::int64_t rows = s[kX].size(0);
    const std::int64_t batch = context->saved_data["batch"].toInt();
    const DecoderBlockOptions options = {
        .query_heads = context->saved_data["query_heads"].toInt(),
        .key_heads = context->saved_data["key_heads"].toInt(),
        .attention_scale = context->saved_data["attention_scale"].toDouble(),
        .attention_dropout =
            context->saved_data["attention_dropout"].toDouble()};
    const auto attention_options = attention_options_of(
        batch,
        rows / std::max<std::int64_t>(batch, 1),
        context->saved_data["head_dim"].toInt(),
        options,
        !s[kMask].defined());
    variable_list g(kParameters);

    SideStream side_stream(rows <= side_stream_max_rows());
    const auto dy = as_rows(d[0]);
    g[kDownW] = gemm_weight_gradient(dy, s[kInner]);
    const auto d_gate_up = swiglu_gradient(gemm(dy, s[kDownBf16]), s[kGateUp]);
    const auto d_gate_up_w = gemm_weight_gradient(d_gate_up, s[kY2]);
    const std::int64_t inner = s[kInner].size(1);
    g[kGateW] = d_gate_up_w.narrow(0, 0, inner);
    g[kUpW] = d_gate_up_w.narrow(0, inner, inner);
    const auto second = norm_gradients(
        gemm(d_gate_up, s[kGateUpBf16]),
        dy,
        {s[kSum2], {}, s[kRstd2], s[kNorm2], {}, false},
        side_stream);
    g[kNorm2W] = second.d_weight;
    g[kOutW] = gemm_weight_gradient(second.d_sum, s[kAttended]);
    const auto d_qkv =
        attention_gradients(
            gemm(second.d_sum, s[kOutBf16]),
            s[kQkv],
            s[kMask],
            s[kCos],
            s[kSin],
            {s[kAttended], s[kLogSumExp], s[kSeed], s[kOffset], {}},
            attention_options,
            side_stream)
            .d_qkv;
    const auto d_qkv_w = gemm_weight_gradient(d_qkv, s[kY1]);
    const std::int64_t queries =
        options.query_heads * attention_options.sizes.head_dim;
    const std::int64_t keys =
        options.key_heads * attention_options.sizes.head_dim;
    g[kQueryW] = d_qkv_w.narrow(0, 0, queries);
    g[kKeyW] = d_qkv_w.narrow(0, queries, keys);
    g[kValueW] = d_qkv_w.narrow(0, queries + keys, keys);
    const auto first = norm_gradients(
        gemm(d_qkv, s[kQkvBf16]),
        second.d_sum,
        {s[kX], {}, s[kRstd1], s[kNorm1], {}, false},
        side_stream);
    g[kNorm1W] = first.d_weight;
    side_stream.join();
    variable_list all(5);
    all[0] = first.d_sum.view({batch, -1, s[kX].size(1)});
    all.insert(all.end(), g.begin(), g.end());
    return all;
  }
};

}  // namespace

at::Tensor gated_decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options) {
  return GatedDecoderBlock::apply(
      x_BTD,
      if_defined(mask_bias),
      options.cos,
      options.sin,
      options,
      at::TensorList(parameters));
}

}  // namespace accelerate::cuda
