// SPDX-License-Identifier: Apache-2.0
// The losses of the heads, by the peer's rules.
//
// Shapes: B batch, T tokens, C classes, V vocabulary. Labels of -100 do not
// count.
#pragma once

#include <ATen/core/Tensor.h>

#include "transformers/configuration.h"

namespace transformers {

/// By `problem_type`; when there is none, the number and type of the labels
/// decide, and that is written into `common`.
at::Tensor sequence_loss(
    const at::Tensor& logits_BC,
    const at::Tensor& labels,
    PretrainedConfig& common);

at::Tensor token_loss(
    const at::Tensor& logits_BTC, const at::Tensor& labels_BT);

/// The label of a token is what the token before it should predict.
/// Each token's label is the next one's; the last has none.
at::Tensor next_labels(const at::Tensor& labels_BT);
at::Tensor causal_loss(
    const at::Tensor& logits_BTV, const at::Tensor& labels_BT);

/// The mean of the two ends' losses; positions outside do not count.
at::Tensor span_loss(
    const at::Tensor& start_logits_BT,
    const at::Tensor& end_logits_BT,
    const at::Tensor& start_positions_B,
    const at::Tensor& end_positions_B);

}  // namespace transformers
