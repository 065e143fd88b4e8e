// SPDX-License-Identifier: Apache-2.0
#include "transformers/modeling.h"

#include <torch/types.h>

#include "accelerate/safetensors.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/loading.h"
#include "transformers/model_module.h"

namespace transformers {
namespace {

using accelerate::str_cat;

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    shown.push_back(accelerate::printable(name));
  }
  return accelerate::join(shown, ", ");
}

}  // namespace

std::string LoadingReport::text() const {
  const std::string head = str_cat(model, " from ", source, ": ");
  std::string text;
  if (!missing.empty()) {
    text += str_cat(
        head,
        "weights that are not in the file were initialized randomly (train "
        "the model before use): ",
        listed(missing),
        "\n");
  }
  if (!mismatched.empty()) {
    text += str_cat(
        head,
        "weights that have a different shape in the file were initialized "
        "randomly (train the model before use): ",
        listed(mismatched),
        "\n");
  }
  if (!unexpected.empty()) {
    text += str_cat(
        head,
        "the model does not use these weights from the file: ",
        listed(unexpected),
        "\n");
  }
  for (const auto& [name, target] : untied) {
    text += str_cat(
        head,
        "the config ties these weights, but their values in the file differ, "
        "so they are not tied: ",
        listed({name, target}),
        "\n");
  }
  return text;
}

PreTrainedModel::PreTrainedModel(std::shared_ptr<ModelModule> module)
    : module_(std::move(module)) {
}
PreTrainedModel::~PreTrainedModel() = default;

std::vector<at::Tensor> PreTrainedModel::parameters() const {
  return module_->parameters();
}

std::vector<std::pair<std::string, at::Tensor>>
PreTrainedModel::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& item : module_->named_parameters()) {
    result.emplace_back(item.key(), item.value());
  }
  return result;
}

std::int64_t PreTrainedModel::num_parameters(bool only_trainable) const {
  std::int64_t sum = 0;
  for (const auto& parameter : module_->parameters()) {
    sum += !only_trainable || parameter.requires_grad() ? parameter.numel() : 0;
  }
  return sum;
}

void PreTrainedModel::train(bool on) {
  module_->train(on);
}
void PreTrainedModel::eval() {
  module_->eval();
}
bool PreTrainedModel::is_training() const {
  return module_->is_training();
}
void PreTrainedModel::zero_grad(bool set_to_none) {
  module_->zero_grad(set_to_none);
}
void PreTrainedModel::to(const c10::Device& device) {
  module_->to(device);
}
void PreTrainedModel::to(c10::ScalarType dtype) {
  module_->to(dtype);
  if (const auto name = dtype_name(dtype); !name.empty()) {
    module_->config.common().dtype = name;
  }
}

void PreTrainedModel::gradient_checkpointing_enable() {
  module_->set_gradient_checkpointing(true);
}
void PreTrainedModel::gradient_checkpointing_disable() {
  module_->set_gradient_checkpointing(false);
}

std::int64_t PreTrainedModel::recorded_steps() const {
  return module_->recorded_steps();
}

const Config& PreTrainedModel::config() const {
  return module_->config;
}
const LoadingReport& PreTrainedModel::loading_report() const {
  return module_->report;
}

void PreTrainedModel::save_pretrained(
    const std::filesystem::path& folder,
    const SavePretrainedOptions& options) const {
  accelerate::TensorMap tensors;
  for (auto& [name, tensor] : named_parameters()) {
    tensors.emplace(name, tensor);
  }
  // The config is written last, so a folder with a config is complete.
  accelerate::save_sharded(
      tensors, folder, {.max_shard_size = options.max_shard_size});
  Config config = module_->config;
  config.common().architectures = {module_->report.model};
  config.save_pretrained(folder);
}

}  // namespace transformers
