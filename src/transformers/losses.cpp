// SPDX-License-Identifier: Apache-2.0
#include "transformers/losses.h"

#include <torch/types.h>

#include "transformers/batch_checks.h"

namespace transformers {
namespace {

constexpr std::int64_t kIgnored = -100;

at::Tensor cross_entropy(
    const at::Tensor& logits,
    const at::Tensor& labels,
    std::int64_t ignored = kIgnored) {
  return at::cross_entropy_loss(
      logits, labels.to(at::kLong), {}, at::Reduction::Mean, ignored);
}

// The mean squared error, computed in the more precise of the two types.
at::Tensor squared_error(const at::Tensor& logits, const at::Tensor& labels) {
  const auto type =
      c10::promoteTypes(logits.scalar_type(), labels.scalar_type());
  return at::mse_loss(logits.to(type), labels.to(type));
}

}  // namespace

at::Tensor sequence_loss(
    const at::Tensor& logits_BC,
    const at::Tensor& labels,
    PretrainedConfig& common) {
  common.problem_type = problem_type_of(labels, common);
  const std::string& type = *common.problem_type;
  if (type == "regression") {
    return common.num_labels == 1
               ? squared_error(logits_BC.squeeze(), labels.squeeze())
               : squared_error(logits_BC, labels);
  }
  if (type == "single_label_classification") {
    return cross_entropy(
        logits_BC.view({-1, common.num_labels}), labels.view(-1));
  }
  return at::binary_cross_entropy_with_logits(logits_BC, labels);
}

at::Tensor token_loss(
    const at::Tensor& logits_BTC, const at::Tensor& labels_BT) {
  return cross_entropy(
      logits_BTC.view({-1, logits_BTC.size(-1)}), labels_BT.reshape(-1));
}

at::Tensor next_labels(const at::Tensor& labels_BT) {
  return at::constant_pad_nd(labels_BT.slice(1, 1), {0, 1}, kIgnored);
}

at::Tensor causal_loss(
    const at::Tensor& logits_BTV, const at::Tensor& labels_BT) {
  const auto next_BT = next_labels(labels_BT);
  return cross_entropy(
      logits_BTV.to(at::kFloat).view({-1, logits_BTV.size(-1)}),
      next_BT.reshape(-1));
}

at::Tensor span_loss(
    const at::Tensor& start_logits_BT,
    const at::Tensor& end_logits_BT,
    const at::Tensor& start_positions_B,
    const at::Tensor& end_positions_B) {
  const std::int64_t outside = start_logits_BT.size(1);
  const auto loss = [&](const at::Tensor& logits_BT,
                        const at::Tensor& positions) {
    const auto positions_B =
        positions.dim() > 1 ? positions.squeeze(-1) : positions;
    return cross_entropy(logits_BT, positions_B.clamp(0, outside), outside);
  };
  return (loss(start_logits_BT, start_positions_B) +
          loss(end_logits_BT, end_positions_B)) /
         2;
}

}  // namespace transformers
