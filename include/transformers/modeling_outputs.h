// SPDX-License-Identifier: Apache-2.0
// What models return. The types are visible, as everything made of them is.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "transformers/export.h"

namespace transformers {

/// What a model with a head returns. `loss` is undefined without labels;
/// `hidden_states` and `attentions` are empty unless asked for. `logits` are
/// undefined for a causal model in training on its fused path, which never
/// holds them.
struct TRANSFORMERS_API ModelOutput {
  at::Tensor loss;
  /// Without values in some trainings: see `CallOptions::output_logits`.
  at::Tensor logits;
  /// The embeddings, then what each layer returns.
  std::vector<at::Tensor> hidden_states;
  /// [batch, heads, tokens, tokens] for each layer.
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
  /// Of the first token; undefined for models without a pooler.
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
