// SPDX-License-Identifier: Apache-2.0
#include "transformers/attention.h"

#include <limits>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers {
namespace {

at::Tensor causal_TT(std::int64_t tokens, const at::Device& device) {
  return at::ones({tokens, tokens}, at::TensorOptions(at::kBool).device(device))
      .tril();
}

// Whether a mask hides no token. Returns false for masks on a GPU, because
// reading them would make the program wait for the GPU.
bool hides_nothing(const at::Tensor& allowed) {
  return allowed.device().is_cpu() && allowed.all().item<bool>();
}

at::Tensor as_four_dimensions(const at::Tensor& mask) {
  if (mask.dim() == 2) {
    return mask.unsqueeze(1).unsqueeze(1);
  }
  if (mask.is_floating_point()) {
    // Hugging Face Transformers adds such a mask to the scores, so a 0 would
    // hide nothing.
    throw accelerate::ArgumentError(
        accelerate::str_cat(
            "`attention_mask` has shape ",
            mask.sizes(),
            " and type ",
            c10::toString(mask.scalar_type()),
            "; additive masks are not supported"),
        "pass a boolean mask: `mask.eq(0)` converts a mask that is 0 at "
        "visible "
        "tokens");
  }
  if (mask.dim() == 3) {
    return mask.unsqueeze(1);
  }
  if (mask.dim() == 4) {
    return mask;
  }
  throw accelerate::ArgumentError(accelerate::str_cat(
      "`attention_mask` has shape ",
      mask.sizes(),
      "; it must have shape [batch, tokens] and contain only 0 and 1"));
}

at::Tensor repeat_heads(const at::Tensor& x_BHTD, std::int64_t times) {
  return times == 1 ? x_BHTD : x_BHTD.repeat_interleave(times, 1);
}

at::Tensor eager_attention(
    const at::Tensor& q_BHTD,
    const at::Tensor& k_BHTD,
    const at::Tensor& v_BHTD,
    const AttentionMask& mask,
    const AttentionOptions& options) {
  auto scores_BHTT = at::matmul(q_BHTD, k_BHTD.transpose(-1, -2))
                         .mul(options.scale)
                         .to(at::kFloat);
  const at::Tensor allowed = mask.is_causal
                                 ? causal_TT(q_BHTD.size(2), q_BHTD.device())
                                 : mask.allowed;
  if (allowed.defined()) {
    // The mask is added to the scores instead of replacing them, as in Hugging
    // Face Transformers. A row that may not attend to any token then attends to
    // all tokens equally, and its scores have gradients.
    scores_BHTT = scores_BHTT + at::zeros_like(allowed, at::kFloat)
                                    .masked_fill(
                                        allowed.logical_not(),
                                        std::numeric_limits<float>::lowest());
  }
  auto weights_BHTT = at::softmax(scores_BHTT, -1).to(v_BHTD.scalar_type());
  if (options.dropout > 0.0) {
    weights_BHTT = at::dropout(weights_BHTT, options.dropout, true);
  }
  if (options.weights != nullptr) {
    options.weights->push_back(weights_BHTT);
  }
  return at::matmul(weights_BHTT, v_BHTD);
}

}  // namespace

AttentionMask attention_mask(
    const at::Tensor& padding_BT,
    const at::Tensor& hidden_BTE,
    bool is_causal) {
  if (!padding_BT.defined()) {
    return {.allowed = {}, .is_causal = is_causal};
  }
  const auto allowed = as_four_dimensions(padding_BT).ne(0);
  const std::int64_t rows = hidden_BTE.size(0);
  const std::int64_t tokens = hidden_BTE.size(1);
  if (allowed.size(3) != tokens ||
      (allowed.size(2) != 1 && allowed.size(2) != tokens) ||
      (allowed.size(0) != 1 && allowed.size(0) != rows)) {
    throw accelerate::ArgumentError(accelerate::str_cat(
        "`attention_mask` has shape ",
        padding_BT.sizes(),
        ", but the number of rows in the batch is ",
        rows,
        ", and the number of tokens in a row is ",
        tokens));
  }
  if (hides_nothing(allowed)) {
    return {.allowed = {}, .is_causal = is_causal};
  }
  return {
      .allowed = is_causal ? allowed.logical_and(causal_TT(
                                 hidden_BTE.size(1), hidden_BTE.device()))
                           : allowed,
      .is_causal = false};
}

at::Tensor attend(
    const at::Tensor& q_BHTD,
    const at::Tensor& k_BHTD,
    const at::Tensor& v_BHTD,
    const AttentionMask& mask,
    const AttentionOptions& options) {
  const std::int64_t groups = q_BHTD.size(1) / k_BHTD.size(1);
  const auto k = repeat_heads(k_BHTD, groups);
  const auto v = repeat_heads(v_BHTD, groups);
  // For empty inputs on a GPU, LibTorch's fused attention returns no tensor.
  const auto mixed_BHTD =
      options.eager || q_BHTD.numel() == 0
          ? eager_attention(q_BHTD, k, v, mask, options)
          : at::scaled_dot_product_attention(
                q_BHTD,
                k,
                v,
                mask.allowed.defined() ? std::optional(mask.allowed)
                                       : std::nullopt,
                options.dropout,
                mask.is_causal && q_BHTD.size(2) > 1,
                options.scale);
  return mixed_BHTD.transpose(1, 2).flatten(2);
}

at::Tensor split_heads(const at::Tensor& x_BTE, std::int64_t head_dim) {
  return x_BTE
      .view({x_BTE.size(0), x_BTE.size(1), x_BTE.size(2) / head_dim, head_dim})
      .transpose(1, 2);
}

}  // namespace transformers
