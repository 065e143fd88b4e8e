// SPDX-License-Identifier: Apache-2.0
#include "transformers/model_inputs.h"

#include <map>
#include <string>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

using Slot = at::Tensor ModelInputs::*;
const std::map<std::string, Slot>& slots() {
  static const std::map<std::string, Slot> all = {
      {"attention_mask", &ModelInputs::attention_mask},
      {"end_positions", &ModelInputs::end_positions},
      {"input_ids", &ModelInputs::input_ids},
      {"inputs_embeds", &ModelInputs::inputs_embeds},
      {"labels", &ModelInputs::labels},
      {"position_ids", &ModelInputs::position_ids},
      {"start_positions", &ModelInputs::start_positions},
      {"token_type_ids", &ModelInputs::token_type_ids},
  };
  return all;
}

[[noreturn]] void throw_unknown_input(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [key, slot] : slots()) {
    known.push_back(key);
  }
  throw ArgumentError(
      str_cat(
          "the batch has the column `",
          accelerate::printable(name),
          "`, but a model accepts only ",
          accelerate::join(known, ", ")),
      "remove the column from the batch");
}

void check_shape(const char* name, const at::Tensor& tensor, int dims) {
  if (tensor.defined() && tensor.dim() != dims) {
    throw ArgumentError(str_cat(
        "`",
        name,
        "` has shape ",
        tensor.sizes(),
        ", but it must have ",
        dims,
        " dimensions"));
  }
}

}  // namespace

std::int64_t ModelInputs::batch() const {
  return (input_ids.defined() ? input_ids : inputs_embeds).size(0);
}
std::int64_t ModelInputs::tokens() const {
  return (input_ids.defined() ? input_ids : inputs_embeds).size(1);
}

ModelInputs model_inputs(
    const accelerate::TensorMap& tensors,
    const CallOptions& options,
    const PretrainedConfig& config) {
  ModelInputs inputs;
  inputs.options = {
      options.output_hidden_states.value_or(config.output_hidden_states),
      options.output_attentions.value_or(config.output_attentions),
      options.output_logits};
  for (const auto& [name, tensor] : tensors) {
    const auto slot = slots().find(name);
    if (slot == slots().end()) {
      throw_unknown_input(name);
    }
    inputs.*(slot->second) = tensor;
  }
  if (inputs.input_ids.defined() == inputs.inputs_embeds.defined()) {
    throw ArgumentError(
        inputs.input_ids.defined()
            ? "the batch has both `input_ids` and `inputs_embeds`"
            : "the batch has neither `input_ids` nor `inputs_embeds`");
  }
  check_shape("input_ids", inputs.input_ids, 2);
  check_shape("inputs_embeds", inputs.inputs_embeds, 3);
  return inputs;
}

}  // namespace transformers
