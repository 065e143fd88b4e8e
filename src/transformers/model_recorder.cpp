// SPDX-License-Identifier: Apache-2.0
#include "transformers/model_recorder.h"

#include <algorithm>
#include <array>
#include <bit>

#include <ATen/Context.h>
#include <torch/types.h>

#include "device/fused_blocks.h"
#include "device/token_counts.h"

namespace transformers {
namespace {

constexpr std::array kInputFields = {
    &ModelInputs::input_ids,
    &ModelInputs::inputs_embeds,
    &ModelInputs::attention_mask,
    &ModelInputs::token_type_ids,
    &ModelInputs::position_ids,
    &ModelInputs::labels,
    &ModelInputs::start_positions,
    &ModelInputs::end_positions};

constexpr std::int64_t kIgnoredLabel = -100;

constexpr std::array kResultFields = {
    &ModelResult::loss,
    &ModelResult::logits,
    &ModelResult::start_logits,
    &ModelResult::end_logits,
    &ModelResult::before_logits};

bool is_deterministic() {
  return at::globalContext().deterministicAlgorithms();
}

// Whether the tensor has a row for each sequence and a column for each token.
bool is_matrix(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 2;
}

bool may_pad(const ModelInputs& inputs, const Padding& padding) {
  const bool hides_new_tokens = inputs.attention_mask.defined()
                                    ? is_matrix(inputs.attention_mask)
                                    : padding.is_causal;
  // A different length changes the last bits of the results.
  return padding.max_tokens > 0 && !is_deterministic() && hides_new_tokens &&
         inputs.input_ids.defined() &&
         (!padding.per_token || is_matrix(inputs.labels));
}

// Returns a copy of `original` that contains `tensors`.
ModelInputs inputs_of(
    const std::vector<at::Tensor>& tensors, const ModelInputs& original) {
  ModelInputs inputs;
  inputs.options = original.options;
  inputs.unpadded_rows = original.unpadded_rows;
  for (std::size_t i = 0; i < kInputFields.size(); ++i) {
    inputs.*kInputFields[i] = tensors[i];
  }
  return inputs;
}

}  // namespace

std::int64_t unpadded_rows(
    const at::Tensor& mask_BT, std::int64_t padded_tokens) {
  const auto counts = accelerate::token_counts_of(mask_BT);
  if (!counts || !counts->has_first_tokens || counts->real == 0) {
    return 0;
  }
  const std::int64_t count = counts->real;
  // Rounds up, so that there are at most four sizes per doubling.
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(count));
  const auto step = std::max<std::int64_t>(
      static_cast<std::int64_t>(power / 8), std::int64_t{64});
  const std::int64_t rows = (count + step - 1) / step * step;
  // If at least a tenth of the tokens is skipped, moving the rows takes less
  // time than skipping saves.
  return rows <= padded_tokens - padded_tokens / 10 ? rows : 0;
}

std::int64_t padded_length(std::int64_t tokens, std::int64_t max_tokens) {
  // Rounds up, so that there are at most four lengths per doubling.
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(tokens));
  const auto step = std::max<std::int64_t>(
      static_cast<std::int64_t>(power / 8), std::int64_t{8});
  return std::max(
      tokens, std::min((tokens + step - 1) / step * step, max_tokens / 8 * 8));
}

ModelInputs padded(
    const ModelInputs& inputs, std::int64_t tokens, const Padding& padding) {
  ModelInputs longer = inputs;
  const auto lengthen = [&](at::Tensor& rows, std::int64_t value) {
    if (rows.defined()) {
      rows = at::constant_pad_nd(rows, {0, tokens - rows.size(1)}, value);
    }
  };
  lengthen(longer.input_ids, padding.id);
  lengthen(longer.attention_mask, 0);
  lengthen(longer.token_type_ids, 0);
  lengthen(longer.position_ids, 0);
  if (padding.per_token) {
    lengthen(longer.labels, kIgnoredLabel);
  }
  return longer;
}

ModelRecorder::ModelRecorder(
    const torch::nn::Module& model, const accelerate::RecordPolicy& policy)
    : parameters_(model.parameters()),
      modules_(model.modules(/*include_self=*/false)),
      step_(parameters_),
      recorder_(step_, {.policy = policy}) {
}

std::string ModelRecorder::key(const ModelInputs& inputs) const {
  std::string key = is_deterministic() ? "d" : "-";
  key += std::to_string(inputs.unpadded_rows);
  key += inputs.options.output_logits ? 'l' : '-';
  for (const auto& module : modules_) {
    key += module->is_training() ? 't' : 'e';
  }
  for (const at::Tensor& parameter : parameters_) {
    key += parameter.requires_grad() ? 'g' : '-';
  }
  return key;
}

ModelResult ModelRecorder::run(
    const ModelInputs& original,
    const Padding& padding,
    const Compute& compute) {
  ModelInputs inputs = original;
  if (may_pad(original, padding)) {
    std::int64_t length = padded_length(original.tokens(), padding.max_tokens);
    if (padding.can_unpad && length <= accelerate::kShortSequence) {
      inputs.unpadded_rows =
          unpadded_rows(original.attention_mask, original.batch() * length);
    }
    if (inputs.unpadded_rows > 0) {
      // The padding is removed again by unpadding, so batches of many lengths
      // can share one CUDA graph.
      length = std::max(
          length, std::min(accelerate::kShortSequence, padding.max_tokens));
    }
    if (length > original.tokens()) {
      const std::int64_t rows = inputs.unpadded_rows;
      inputs = padded(original, length, padding);
      inputs.unpadded_rows = rows;
    }
  }
  std::vector<at::Tensor> tensors;
  for (const auto field : kInputFields) {
    tensors.push_back(inputs.*field);
  }
  const auto body = [&](const std::vector<at::Tensor>& in) {
    const ModelResult result = compute(inputs_of(in, inputs));
    std::vector<at::Tensor> out;
    returned_.clear();
    for (const auto field : kResultFields) {
      if ((result.*field).defined()) {
        returned_.push_back(field);
        out.push_back(result.*field);
      }
    }
    return out;
  };
  const auto computed = recorder_.run(key(inputs), tensors, body);
  ModelResult result;
  for (std::size_t i = 0; i < returned_.size(); ++i) {
    result.*returned_[i] = computed[i];
  }
  if (padding.per_token && inputs.tokens() > original.tokens()) {
    for (const auto field :
         {&ModelResult::logits, &ModelResult::before_logits}) {
      if (at::Tensor& rows = result.*field; rows.defined()) {
        rows = rows.narrow(1, 0, original.tokens());
      }
    }
  }
  return result;
}

}  // namespace transformers
