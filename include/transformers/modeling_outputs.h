// SPDX-License-Identifier: Apache-2.0
// The structs that models return from a forward pass.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "transformers/export.h"

namespace transformers {

/// The output of a model with a head. `loss` is undefined without labels;
/// `hidden_states` and `attentions` are empty unless requested.
struct TRANSFORMERS_API ModelOutput {
  at::Tensor loss;
  /// If a causal model trains with labels on a GPU, this tensor is sometimes
  /// computed only when an operator first reads it; see
  /// `CallOptions::output_logits`.
  at::Tensor logits;
  /// The output of the embedding layer, followed by the output of each layer.
  std::vector<at::Tensor> hidden_states;
  /// The attention weights: for each layer, a tensor of shape [batch, heads,
  /// tokens, tokens].
  std::vector<at::Tensor> attentions;
};

using SequenceClassifierOutput = ModelOutput;
using TokenClassifierOutput = ModelOutput;
using MaskedLMOutput = ModelOutput;
using CausalLMOutput = ModelOutput;

struct TRANSFORMERS_API QuestionAnsweringModelOutput {
  at::Tensor loss;
  at::Tensor start_logits;
  at::Tensor end_logits;
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
};

struct TRANSFORMERS_API BaseModelOutput {
  at::Tensor last_hidden_state;
  /// The pooler's output for the first token of each row. Undefined for models
  /// without a pooler.
  at::Tensor pooler_output;
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
};

template <typename F>
void for_each_tensor(ModelOutput& output, F f) {
  f(output.loss);
  f(output.logits);
  f(output.hidden_states);
  f(output.attentions);
}

template <typename F>
void for_each_tensor(QuestionAnsweringModelOutput& output, F f) {
  f(output.loss);
  f(output.start_logits);
  f(output.end_logits);
  f(output.hidden_states);
  f(output.attentions);
}

template <typename F>
void for_each_tensor(BaseModelOutput& output, F f) {
  f(output.last_hidden_state);
  f(output.pooler_output);
  f(output.hidden_states);
  f(output.attentions);
}

}  // namespace transformers
