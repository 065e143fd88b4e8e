// SPDX-License-Identifier: Apache-2.0
//
// Shapes: N = B T rows, D width, I inner width.
#include "cuda/blocks/encoder_block.h"

#include <cmath>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/aside.h"
#include "cuda/blocks/attention.h"
#include "cuda/blocks/backward_start.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"
#include "cuda/blocks/shadows.h"

namespace accelerate::cuda {
namespace {

using kernels::Activation;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum Parameter {
  kQueryW,
  kQueryB,
  kKeyW,
  kKeyB,
  kValueW,
  kValueB,
  kOutW,
  kOutB,
  kNorm1W,
  kNorm1B,
  kInnerW,
  kInnerB,
  kOuterW,
  kOuterB,
  kNorm2W,
  kNorm2B,
  kParameters
};

enum Saved {
  kX,
  kMask,
  kPacked,
  kMixed,
  kLogSumExp,
  kSeed,
  kOffset,
  kSum1,
  kMean1,
  kRstd1,
  kY1,
  kPre,
  kInner,
  kSum2,
  kMean2,
  kRstd2,
  kPackedW,
  kOutShadow,
  kInnerShadow,
  kOuterShadow,
  kNorm1,
  kNorm2,
  kInnerBias,
  kStarts,
  kSavedCount
};

AttentionSettings attention_settings(
    std::int64_t batch,
    std::int64_t tokens,
    std::int64_t width,
    const EncoderBlockOptions& options) {
  const std::int64_t head_dim = width / options.heads;
  const bool has_starts = options.starts.defined();
  return {
      {has_starts ? options.starts.size(0) - 1 : batch,
       has_starts ? kShortSequence : tokens,
       options.heads,
       options.heads,
       head_dim},
      options.attention_dropout,
      1.0 / std::sqrt(static_cast<double>(head_dim)),
      /*is_causal=*/false,
      options.starts};
}

void check_starts(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const EncoderBlockOptions& options) {
  if (options.starts.defined() &&
      (mask_bias.defined() || x_BTD.size(0) != 1 ||
       !attends_to_sequences(
           at::kBFloat16, kShortSequence, x_BTD.size(2) / options.heads))) {
    throw ArgumentError(str_cat(
        "a batch without padding is one row of tokens, without a mask and "
        "with heads of 32 or 64; this one is ",
        x_BTD.sizes(),
        " with ",
        options.heads,
        " heads"));
  }
}

class EncoderBlock : public torch::autograd::Function<EncoderBlock> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x_BTD,
      const std::optional<at::Tensor>& mask,
      const EncoderBlockOptions& options,
      at::TensorList p) {
    const at::Tensor mask_bias = mask.value_or(at::Tensor());
    check_starts(x_BTD, mask_bias, options);
    const auto settings = attention_settings(
        x_BTD.size(0), x_BTD.size(1), x_BTD.size(2), options);
    variable_list s(kSavedCount);
    s[kX] = as_rows(x_BTD);
    s[kMask] = mask_bias;
    s[kStarts] = options.starts;
    s[kPackedW] = shadow_of({p[kQueryW], p[kKeyW], p[kValueW]});
    s[kOutShadow] = shadow_of(p[kOutW]);
    s[kInnerShadow] = shadow_of(p[kInnerW]);
    s[kOuterShadow] = shadow_of(p[kOuterW]);
    s[kNorm1] = p[kNorm1W].detach();
    s[kNorm2] = p[kNorm2W].detach();
    s[kInnerBias] = p[kInnerB].detach();

    s[kPacked] = gemm(
        s[kX],
        s[kPackedW],
        {.transpose_b = true,
         .bias = shadow_of({p[kQueryB], p[kKeyB], p[kValueB]})});
    const auto mixed = attention(s[kPacked], mask_bias, {}, {}, settings);
    s[kMixed] = mixed.out;
    s[kLogSumExp] = mixed.logsumexp;
    s[kSeed] = mixed.seed;
    s[kOffset] = mixed.offset;
    const auto dropout1 =
        draw_dropout(options.drops_attended ? options.hidden_dropout : 0.0);
    const auto first = norm(
        {.x = gemm(s[kMixed], s[kOutShadow], {.transpose_b = true}),
         .bias = p[kOutB].detach(),
         .residual = s[kX],
         .dropout = dropout1,
         .weight = s[kNorm1],
         .shift = p[kNorm1B].detach(),
         .eps = options.layer_norm_eps});
    s[kSum1] = first.sum;
    s[kMean1] = first.mean;
    s[kRstd1] = first.rstd;
    s[kY1] = first.y;
    s[kPre] = gemm(s[kY1], s[kInnerShadow], {.transpose_b = true});
    s[kInner] = bias_activation(s[kPre], s[kInnerBias], Activation::gelu_erf);
    const auto dropout2 = draw_dropout(options.hidden_dropout);
    const auto second = norm(
        {.x = gemm(s[kInner], s[kOuterShadow], {.transpose_b = true}),
         .bias = p[kOuterB].detach(),
         .residual = s[kY1],
         .dropout = dropout2,
         .weight = s[kNorm2],
         .shift = p[kNorm2B].detach(),
         .eps = options.layer_norm_eps});
    s[kSum2] = second.sum;
    s[kMean2] = second.mean;
    s[kRstd2] = second.rstd;

    context->save_for_backward(s);
    keep(*context, "attention", mixed.dropout);
    keep(*context, "dropout1", dropout1);
    keep(*context, "dropout2", dropout2);
    context->saved_data["batch"] = x_BTD.size(0);
    context->saved_data["heads"] = options.heads;
    context->saved_data["attention_dropout"] = options.attention_dropout;
    return second.y.view(x_BTD.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    note_start_of_backward();
    const variable_list s = context->get_saved_variables();
    const std::int64_t rows = s[kX].size(0);
    const std::int64_t width = s[kX].size(1);
    const std::int64_t batch = context->saved_data["batch"].toInt();
    const EncoderBlockOptions options = {
        .heads = context->saved_data["heads"].toInt(),
        .attention_dropout =
            context->saved_data["attention_dropout"].toDouble(),
        .starts = s[kStarts]};
    const auto settings = attention_settings(
        batch, rows / std::max<std::int64_t>(batch, 1), width, options);
    variable_list g(kParameters);
    Aside aside(rows <= aside_rows());
    const auto weight_gradient =
        [&](int which, const at::Tensor& dy, const at::Tensor& x) {
          g[which] =
              at::empty({dy.size(1), x.size(1)}, x.options().dtype(at::kFloat));
          aside.run([&] { gemm_into(g[which], dy, x, {.transpose_a = true}); });
        };

    const auto dy = as_rows(d[0]);
    const auto second = norm_gradients(
        dy,
        {},
        {s[kSum2],
         s[kMean2],
         s[kRstd2],
         s[kNorm2],
         kept(*context, "dropout2"),
         true},
        aside);
    g[kNorm2W] = second.d_weight;
    g[kNorm2B] = second.d_shift;
    g[kOuterB] = second.d_bias;
    weight_gradient(kOuterW, second.dx, s[kInner]);
    const auto [d_pre, d_inner_bias] = bias_activation_gradients(
        gemm(second.dx, s[kOuterShadow]),
        s[kPre],
        s[kInnerBias],
        Activation::gelu_erf,
        aside);
    g[kInnerB] = d_inner_bias;
    weight_gradient(kInnerW, d_pre, s[kY1]);
    const auto first = norm_gradients(
        gemm(d_pre, s[kInnerShadow], {.add = second.d_sum}),
        {},
        {s[kSum1],
         s[kMean1],
         s[kRstd1],
         s[kNorm1],
         kept(*context, "dropout1"),
         true},
        aside);
    g[kNorm1W] = first.d_weight;
    g[kNorm1B] = first.d_shift;
    g[kOutB] = first.d_bias;
    weight_gradient(kOutW, first.dx, s[kMixed]);
    const auto [d_packed, sums] = attention_gradients(
        gemm(first.dx, s[kOutShadow]),
        s[kPacked],
        s[kMask],
        {},
        {},
        {s[kMixed],
         s[kLogSumExp],
         s[kSeed],
         s[kOffset],
         kept(*context, "attention")},
        settings,
        aside);
    const auto d_packed_w =
        at::empty({3 * width, width}, dy.options().dtype(at::kFloat));
    aside.run([&, &d = d_packed] {
      gemm_into(d_packed_w, d, s[kX], {.transpose_a = true});
    });
    const auto d_packed_b = sums.defined() ? sums : column_sum(d_packed, aside);
    for (int part = 0; part < 3; ++part) {
      g[kQueryW + 2 * part] = d_packed_w.narrow(0, part * width, width);
      g[kQueryB + 2 * part] = d_packed_b.narrow(0, part * width, width);
    }
    const auto dx = gemm(d_packed, s[kPackedW], {.add = first.d_sum});
    aside.join();
    variable_list all = {
        dx.view({batch, -1, width}), at::Tensor(), at::Tensor()};
    all.insert(all.end(), g.begin(), g.end());
    return all;
  }
};

}  // namespace

at::Tensor encoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const EncoderBlockOptions& options) {
  return EncoderBlock::apply(
      x_BTD, if_defined(mask_bias), options, at::TensorList(parameters));
}

}  // namespace accelerate::cuda
