// SPDX-License-Identifier: Apache-2.0
//
// Without dropout, the epilogues of the GEMMs add the residuals. With dropout,
// the kernel of the second norm adds the first residual, and a separate kernel
// adds the second.
//
// Shapes: N = B T rows, D width, I inner width.
#include "cuda/blocks/gelu_decoder_block.h"

#include "cuda/blocks/attention.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"
#include "cuda/blocks/side_stream.h"

namespace accelerate::cuda {
namespace {

using kernels::Activation;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum Parameter {
  kNorm1W,
  kNorm1B,
  kQkvW,
  kQkvB,
  kOutW,
  kOutB,
  kNorm2W,
  kNorm2B,
  kInnerW,
  kInnerB,
  kOuterW,
  kOuterB,
  kParameters
};

enum Saved {
  kX,
  kMask,
  kMean1,
  kRstd1,
  kY1,
  kQkv,
  kAttended,
  kLogSumExp,
  kSeed,
  kOffset,
  kSum2,
  kMean2,
  kRstd2,
  kY2,
  kPre,
  kInner,
  kQkvBf16,
  kOutBf16,
  kInnerBf16,
  kOuterBf16,
  kNorm1,
  kNorm2,
  kInnerBias,
  kSavedCount
};

AttentionOptions attention_options_of(
    std::int64_t batch,
    std::int64_t tokens,
    std::int64_t width,
    const DecoderBlockOptions& options,
    bool is_causal) {
  return {
      {batch,
       tokens,
       options.query_heads,
       options.query_heads,
       width / options.query_heads},
      options.attention_dropout,
      options.attention_scale,
      is_causal};
}

class GeluDecoderBlock : public torch::autograd::Function<GeluDecoderBlock> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x_BTD,
      const std::optional<at::Tensor>& mask,
      const DecoderBlockOptions& options,
      at::TensorList p) {
    const at::Tensor mask_bias = mask.value_or(at::Tensor());
    const auto attention_options = attention_options_of(
        x_BTD.size(0),
        x_BTD.size(1),
        x_BTD.size(2),
        options,
        !mask_bias.defined());
    const bool drops = options.residual_dropout > 0.0;
    variable_list s(kSavedCount);
    s[kX] = as_rows(x_BTD);
    s[kMask] = mask_bias;
    s[kQkvBf16] = low_precision_copy_of(p[kQkvW]);
    s[kOutBf16] = low_precision_copy_of(p[kOutW]);
    s[kInnerBf16] = low_precision_copy_of(p[kInnerW]);
    s[kOuterBf16] = low_precision_copy_of(p[kOuterW]);
    s[kNorm1] = p[kNorm1W].detach();
    s[kNorm2] = p[kNorm2W].detach();
    s[kInnerBias] = p[kInnerB].detach();

    const auto first = norm(
        {.x = s[kX],
         .weight = s[kNorm1],
         .shift = p[kNorm1B].detach(),
         .eps = options.norm_eps});
    s[kMean1] = first.mean;
    s[kRstd1] = first.rstd;
    s[kY1] = first.y;
    s[kQkv] =
        gemm(s[kY1], s[kQkvBf16], {.bias = low_precision_copy_of(p[kQkvB])});
    const auto attended =
        attention(s[kQkv], mask_bias, {}, {}, attention_options);
    s[kAttended] = attended.out;
    s[kLogSumExp] = attended.logsumexp;
    s[kSeed] = attended.seed;
    s[kOffset] = attended.offset;

    const auto dropout1 = draw_dropout(options.residual_dropout);
    NormInput second_input = {
        .weight = s[kNorm2],
        .shift = p[kNorm2B].detach(),
        .eps = options.norm_eps};
    if (drops) {
      second_input.x = gemm(s[kAttended], s[kOutBf16]);
      second_input.bias = p[kOutB].detach();
      second_input.residual = s[kX];
      second_input.dropout = dropout1;
    } else {
      second_input.x = gemm(
          s[kAttended],
          s[kOutBf16],
          {.bias = low_precision_copy_of(p[kOutB]), .add = s[kX]});
    }
    const auto second = norm(second_input);
    s[kSum2] = second.sum;
    s[kMean2] = second.mean;
    s[kRstd2] = second.rstd;
    s[kY2] = second.y;
    s[kPre] = gemm(s[kY2], s[kInnerBf16]);
    s[kInner] = bias_activation(s[kPre], s[kInnerBias], Activation::gelu_tanh);
    const auto dropout2 = draw_dropout(options.residual_dropout);
    const auto y =
        drops
            ? residual_dropout(
                  gemm(s[kInner], s[kOuterBf16]),
                  p[kOuterB].detach(),
                  s[kSum2],
                  dropout2)
            : gemm(
                  s[kInner],
                  s[kOuterBf16],
                  {.bias = low_precision_copy_of(p[kOuterB]), .add = s[kSum2]});

    context->save_for_backward(s);
    save_dropout(*context, "dropout1", dropout1);
    save_dropout(*context, "dropout2", dropout2);
    context->saved_data["batch"] = x_BTD.size(0);
    context->saved_data["heads"] = options.query_heads;
    context->saved_data["attention_dropout"] = options.attention_dropout;
    context->saved_data["attention_scale"] = options.attention_scale;
    return y.view(x_BTD.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list s = context->get_saved_variables();
    const std::int64_t rows = s[kX].size(0);
    const std::int64_t width = s[kX].size(1);
    const std::int64_t batch = context->saved_data["batch"].toInt();
    const DecoderBlockOptions options = {
        .query_heads = context->saved_data["heads"].toInt(),
        .attention_scale = context->saved_data["attention_scale"].toDouble(),
        .attention_dropout =
            context->saved_data["attention_dropout"].toDouble()};
    const auto attention_options = attention_options_of(
        batch,
        rows / std::max<std::int64_t>(batch, 1),
        width,
        options,
        !s[kMask].defined());
    const auto dropout2 = saved_dropout(*context, "dropout2");
    variable_list g(kParameters);
    SideStream side_stream(rows <= side_stream_max_rows());
    const auto weight_gradient =
        [&](int parameter, const at::Tensor& x, const at::Tensor& dy) {
          g[parameter] =
              at::empty({x.size(1), dy.size(1)}, x.options().dtype(at::kFloat));
          side_stream.run(
              [&] { gemm_into(g[parameter], x, dy, {.transpose_a = true}); });
        };
    const GemmOptions transposed = {.transpose_b = true};

    const auto dy = as_rows(d[0]);
    at::Tensor d_outer = dy;
    if (dropout2.rate > 0.0F) {
      std::tie(d_outer, g[kOuterB]) =
          residual_dropout_gradients(dy, dropout2, side_stream);
    } else {
      g[kOuterB] = column_sum(dy, side_stream);
    }
    weight_gradient(kOuterW, s[kInner], d_outer);
    const auto [d_pre, d_inner_bias] = bias_activation_gradients(
        gemm(d_outer, s[kOuterBf16], transposed),
        s[kPre],
        s[kInnerBias],
        Activation::gelu_tanh,
        side_stream);
    g[kInnerB] = d_inner_bias;
    weight_gradient(kInnerW, s[kY2], d_pre);
    const auto second = norm_gradients(
        gemm(d_pre, s[kInnerBf16], transposed),
        dy,
        {s[kSum2],
         s[kMean2],
         s[kRstd2],
         s[kNorm2],
         saved_dropout(*context, "dropout1"),
         true},
        side_stream);
    g[kNorm2W] = second.d_weight;
    g[kNorm2B] = second.d_shift;
    g[kOutB] = second.d_bias;
    weight_gradient(kOutW, s[kAttended], second.dx);
    const auto [d_qkv, d_qkv_bias] = attention_gradients(
        gemm(second.dx, s[kOutBf16], transposed),
        s[kQkv],
        s[kMask],
        {},
        {},
        {s[kAttended], s[kLogSumExp], s[kSeed], s[kOffset], {}},
        attention_options,
        side_stream);
    weight_gradient(kQkvW, s[kY1], d_qkv);
    g[kQkvB] =
        d_qkv_bias.defined() ? d_qkv_bias : column_sum(d_qkv, side_stream);
    const auto first = norm_gradients(
        gemm(d_qkv, s[kQkvBf16], transposed),
        second.d_sum,
        {s[kX], s[kMean1], s[kRstd1], s[kNorm1], {}, false},
        side_stream);
    g[kNorm1W] = first.d_weight;
    g[kNorm1B] = first.d_shift;
    side_stream.join();
    variable_list all = {
        first.d_sum.view({batch, -1, width}), at::Tensor(), at::Tensor()};
    all.insert(all.end(), g.begin(), g.end());
    return all;
  }
};

}  // namespace

at::Tensor gelu_decoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const DecoderBlockOptions& options) {
  return GeluDecoderBlock::apply(
      x_BTD, if_defined(mask_bias), options, at::TensorList(parameters));
}

}  // namespace accelerate::cuda
