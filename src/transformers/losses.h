// SPDX-License-Identifier: Apache-2.0
// The losses for the heads, as in Hugging Face Transformers.
//
// Shapes: B batch, T tokens, C classes, V vocabulary. Labels of -100 are
// ignored.
#pragma once

#include <ATen/core/Tensor.h>

#include "transformers/configuration.h"

namespace transformers {

/// Computes the loss that `common.problem_type` selects. The labels must have
/// been checked by `checked_inputs`. If `problem_type` is not set, it is
/// derived from `num_labels` and the data type of `labels`, and stored in
/// `common`.
at::Tensor sequence_loss(
    const at::Tensor& logits_BC,
    const at::Tensor& labels,
    PretrainedConfig& common);

at::Tensor token_loss(
    const at::Tensor& logits_BTC, const at::Tensor& labels_BT);

/// Shifts the labels by one position, so that each token predicts the next
/// token. The last token of a row gets the label -100.
at::Tensor next_labels(const at::Tensor& labels_BT);
at::Tensor causal_loss(
    const at::Tensor& logits_BTV, const at::Tensor& labels_BT);

/// Computes the mean of the losses for the start and the end of the answer.
/// Positions beyond the last token of a row are ignored.
at::Tensor span_loss(
    const at::Tensor& start_logits_BT,
    const at::Tensor& end_logits_BT,
    const at::Tensor& start_positions_B,
    const at::Tensor& end_positions_B);

}  // namespace transformers
