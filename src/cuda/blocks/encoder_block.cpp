// SPDX-License-Identifier: Apache-2.0
//
// Shapes: N = B T rows, D width, I inner width.
#include "cuda/blocks/encoder_block.h"

#include <cmath>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/attention.h"
#include "cuda/blocks/backward_start.h"
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
  kQkv,
  kAttended,
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
  kQkvBf16,
  kOutBf16,
  kInnerBf16,
  kOuterBf16,
  kNorm1,
  kNorm2,
  kInnerBias,
  kSequenceOffsets,
  kSavedCount
};

AttentionOptions attention_options_of(
    std::int64_t batch,
    std::int64_t tokens,
    std::int64_t width,
    const EncoderBlockOptions& options) {
  const std::int64_t head_dim = width / options.heads;
  const bool has_sequence_offsets = options.sequence_offsets.defined();
  return {
      {has_sequence_offsets ? options.sequence_offsets.size(0) - 1 : batch,
       has_sequence_offsets ? kShortSequence : tokens,
       options.heads,
       options.heads,
       head_dim},
      options.attention_dropout,
      1.0 / std::sqrt(static_cast<double>(head_dim)),
      /*is_causal=*/false,
      options.sequence_offsets};
}

void check_unpadded_input(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const EncoderBlockOptions& options) {
  if (options.sequence_offsets.defined() &&
      (mask_bias.defined() || x_BTD.size(0) != 1 ||
       !supports_unpadding(x_BTD.size(2) / options.heads))) {
    throw ArgumentError(str_cat(
        "an unpadded batch must be one row of tokens without a mask, and "
        "attention heads must have 32 or 64 channels, but this batch has "
        "shape ",
        x_BTD.sizes(),
        ", heads of ",
        x_BTD.size(2) / options.heads,
        " channels",
        mask_bias.defined() ? " and a mask" : " and no mask"));
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
    check_unpadded_input(x_BTD, mask_bias, options);
    const auto attention_options = attention_options_of(
        x_BTD.size(0), x_BTD.size(1), x_BTD.size(2), options);
    variable_list s(kSavedCount);
    s[kX] = as_rows(x_BTD);
    s[kMask] = mask_bias;
    s[kSequenceOffsets] = options.sequence_offsets;
    s[kQkvBf16] = low_precision_copy_of({p[kQueryW], p[kKeyW], p[kValueW]});
    s[kOutBf16] = low_precision_copy_of(p[kOutW]);
    s[kInnerBf16] = low_precision_copy_of(p[kInnerW]);
    s[kOuterBf16] = low_precision_copy_of(p[kOuterW]);
    s[kNorm1] = p[kNorm1W].detach();
    s[kNorm2] = p[kNorm2W].detach();
    s[kInnerBias] = p[kInnerB].detach();

    s[kQkv] = gemm(
        s[kX],
        s[kQkvBf16],
        {.transpose_b = true,
         .bias = low_precision_copy_of({p[kQueryB], p[kKeyB], p[kValueB]})});
    const auto attended =
        attention(s[kQkv], mask_bias, {}, {}, attention_options);
    s[kAttended] = attended.out;
    s[kLogSumExp] = attended.logsumexp;
    s[kSeed] = attended.seed;
    s[kOffset] = attended.offset;
    const auto dropout1 = draw_dropout(
        options.drops_attention_output ? options.hidden_dropout : 0.0);
    const auto first = norm(
        {.x = gemm(s[kAttended], s[kOutBf16], {.transpose_b = true}),
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
    s[kPre] = gemm(s[kY1], s[kInnerBf16], {.transpose_b = true});
    s[kInner] = bias_activation(s[kPre], s[kInnerBias], Activation::gelu_erf);
    const auto dropout2 = draw_dropout(options.hidden_dropout);
    const auto second = norm(
        {.x = gemm(s[kInner], s[kOuterBf16], {.transpose_b = true}),
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
    save_dropout(*context, "attention", attended.dropout);
    save_dropout(*context, "dropout1", dropout1);
    save_dropout(*context, "dropout2", dropout2);
    context->saved_data["batch"] = x_BTD.size(0);
    context->saved_data["heads"] = options.heads;
    context->saved_data["attention_dropout"] = options.attention_dropout;
    return second.y.view(x_BTD.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    record_backward_start();
    const variable_list s = context->get_saved_variables();
    const std::int64_t rows = s[kX].size(0);
    const std::int64_t width = s[kX].size(1);
    const std::int64_t batch = context->saved_data["batch"].toInt();
    const EncoderBlockOptions options = {
        .heads = context->saved_data["heads"].toInt(),
        .attention_dropout =
            context->saved_data["attention_dropout"].toDouble(),
        .sequence_offsets = s[kSequenceOffsets]};
    const auto attention_options = attention_options_of(
        batch, rows / std::max<std::int64_t>(batch, 1), width, options);
    variable_list g(kParameters);
    SideStream side_stream(rows <= side_stream_max_rows());
    const auto weight_gradient =
        [&](int parameter, const at::Tensor& dy, const at::Tensor& x) {
          g[parameter] =
              at::empty({dy.size(1), x.size(1)}, x.options().dtype(at::kFloat));
          side_stream.run(
              [&] { gemm_into(g[parameter], dy, x, {.transpose_a = true}); });
        };

    const auto dy = as_rows(d[0]);
    const auto second = norm_gradients(
        dy,
        {},
        {s[kSum2],
         s[kMean2],
         s[kRstd2],
         s[kNorm2],
         saved_dropout(*context, "dropout2"),
         true},
        side_stream);
    g[kNorm2W] = second.d_weight;
    g[kNorm2B] = second.d_shift;
    g[kOuterB] = second.d_bias;
    weight_gradient(kOuterW, second.dx, s[kInner]);
    const auto [d_pre, d_inner_bias] = bias_activation_gradients(
        gemm(second.dx, s[kOuterBf16]),
        s[kPre],
        s[kInnerBias],
        Activation::gelu_erf,
        side_stream);
    g[kInnerB] = d_inner_bias;
    weight_gradient(kInnerW, d_pre, s[kY1]);
    const auto first = norm_gradients(
        gemm(d_pre, s[kInnerBf16], {.add = second.d_sum}),
        {},
        {s[kSum1],
         s[kMean1],
         s[kRstd1],
         s[kNorm1],
         saved_dropout(*context, "dropout1"),
         true},
        side_stream);
    g[kNorm1W] = first.d_weight;
    g[kNorm1B] = first.d_shift;
    g[kOutB] = first.d_bias;
    weight_gradient(kOutW, first.dx, s[kAttended]);
    const auto [d_qkv, sums] = attention_gradients(
        gemm(first.dx, s[kOutBf16]),
        s[kQkv],
        s[kMask],
        {},
        {},
        {s[kAttended],
         s[kLogSumExp],
         s[kSeed],
         s[kOffset],
         saved_dropout(*context, "attention")},
        attention_options,
        side_stream);
    const auto d_qkv_w =
        at::empty({3 * width, width}, dy.options().dtype(at::kFloat));
    side_stream.run([&, &d = d_qkv] {
      gemm_into(d_qkv_w, d, s[kX], {.transpose_a = true});
    });
    const auto d_qkv_b = sums.defined() ? sums : column_sum(d_qkv, side_stream);
    for (int part = 0; part < 3; ++part) {
      g[kQueryW + 2 * part] = d_qkv_w.narrow(0, part * width, width);
      g[kQueryB + 2 * part] = d_qkv_b.narrow(0, part * width, width);
    }
    const auto dx = gemm(d_qkv, s[kQkvBf16], {.add = first.d_sum});
    side_stream.join();
    variable_list all = {
        dx.view({batch, -1, width}), at::Tensor(), at::Tensor()};
    all.insert(all.end(), g.begin(), g.end());
    return all;
  }
};

}  // namespace

bool supports_encoder_block(
    const EncoderBlockOptions& options, std::int64_t head_dim) {
  return options.activation == ActivationKind::gelu_erf &&
         supports_heads(head_dim);
}

bool supports_unpadding(std::int64_t head_dim) {
  return supports_variable_lengths(at::kBFloat16, kShortSequence, head_dim);
}

at::Tensor encoder_block(
    const at::Tensor& x_BTD,
    const at::Tensor& mask_bias,
    const std::vector<at::Tensor>& parameters,
    const EncoderBlockOptions& options) {
  if (options.activation != ActivationKind::gelu_erf) {
    throw ArgumentError(
        "the encoder block of libaccelerate_cuda.so supports only the "
        "activation `gelu_erf`",
        "call `supports_encoder_block` first, and use the reference path if it "
        "returns false");
  }
  return EncoderBlock::apply(
      x_BTD, if_defined(mask_bias), options, at::TensorList(parameters));
}

}  // namespace accelerate::cuda
