// SPDX-License-Identifier: Apache-2.0
// Checks a batch before a model runs.
//
// The values of tensors on a GPU are checked only if they are known without
// waiting for the GPU, that is, for batches of a prepared data loader; see
// device/token_counts.h.
//
// Shapes: B batch, T tokens, C classes, V rows of an embedding table, D width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "transformers/model_inputs.h"

namespace transformers {

/// The kind of labels that a model takes.
enum class LabelKind {
  none,   ///< The model has no labels.
  row,    ///< The values per row that `PretrainedConfig::problem_type` needs.
  token,  ///< One class per token, or -100.
  span,   ///< `start_positions` and `end_positions`: one token per row.
};

/// The limits of a model: the values that its inputs may have.
struct BatchLimits {
  at::Tensor words_VD;  ///< The table that `input_ids` index.
  /// Largest number of tokens in a row. If 0, there is no limit.
  std::int64_t positions = 0;
  /// The position id of the first token. The table of position embeddings has
  /// this many more rows than `positions`.
  std::int64_t first_position = 0;
  /// If set, tokens with this token id do not count toward `positions`.
  std::optional<std::int64_t> skipped_id = std::nullopt;
  std::int64_t types = 0;  ///< Number of token types. If 0, types are ignored.
  LabelKind labels = LabelKind::none;
  std::int64_t classes = 0;  ///< Number of classes of a label.
};

/// Returns the inputs; expands the mask, the types and the positions, if given,
/// to one value for each token. Throws an `ArgumentError` with the name of the
/// input and the wrong value if the model cannot process the inputs.
ModelInputs checked_inputs(
    const ModelInputs& inputs,
    const BatchLimits& limits,
    const PretrainedConfig& common);

/// Returns `PretrainedConfig::problem_type` if it is set, otherwise the problem
/// type that follows from `num_labels` and the type of `labels`.
std::string problem_type_of(
    const at::Tensor& labels, const PretrainedConfig& common);

/// Lists the names, types and shapes of the tensors in a batch.
std::string described(const ModelInputs& inputs);

}  // namespace transformers
