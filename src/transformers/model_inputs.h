// SPDX-License-Identifier: Apache-2.0
// The tensors that models of all architectures take.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "accelerate/tensor_map.h"
#include "transformers/configuration.h"
#include "transformers/modeling.h"

namespace transformers {

/// The outputs that a forward pass must return: the values in `CallOptions`, or
/// else in the config.
struct RequestedOutputs {
  bool output_hidden_states = false;
  bool output_attentions = false;
  bool output_logits = false;
};

/// The tensors in a batch; missing tensors are undefined.
struct ModelInputs {
  at::Tensor input_ids;
  at::Tensor inputs_embeds;
  at::Tensor attention_mask;
  at::Tensor token_type_ids;
  at::Tensor position_ids;
  at::Tensor labels;
  at::Tensor start_positions;
  at::Tensor end_positions;
  RequestedOutputs options;
  /// If 0, the layers process the padded batch. Otherwise, the layers process
  /// an unpadded batch with this many rows, one per token. There are at least
  /// as many rows as tokens that `attention_mask` keeps, and only the result
  /// for the first token of each sequence is used.
  std::int64_t unpadded_rows = 0;

  std::int64_t batch() const;
  std::int64_t tokens() const;
};

/// Collects the tensors in a batch. Throws `ArgumentError` for an unknown name,
/// or if the batch does not have exactly one of `input_ids` and
/// `inputs_embeds`.
ModelInputs model_inputs(
    const accelerate::TensorMap& tensors,
    const CallOptions& options,
    const PretrainedConfig& config);

}  // namespace transformers
