// SPDX-License-Identifier: Apache-2.0
#include "transformers/auto_model.h"

#include <torch/types.h>

#include "transformers/loading.h"
#include "transformers/model_module.h"

namespace transformers {
namespace {

std::shared_ptr<PreTrainedModel> load(
    Task task, const std::string& name, const FromPretrainedOptions& options) {
  return std::make_shared<PreTrainedModel>(load_model(task, name, options));
}

std::shared_ptr<PreTrainedModel> make(
    Task task, const Config& config, const FromConfigOptions& options) {
  return std::make_shared<PreTrainedModel>(make_model(task, config, options));
}

void convert(ModelResult&& from, ModelOutput& to) {
  to = {
      std::move(from.loss),
      std::move(from.logits),
      std::move(from.hidden_states),
      std::move(from.attentions)};
}

void convert(ModelResult&& from, QuestionAnsweringModelOutput& to) {
  to = {
      std::move(from.loss),
      std::move(from.start_logits),
      std::move(from.end_logits),
      std::move(from.hidden_states),
      std::move(from.attentions)};
}

void convert(ModelResult&& from, BaseModelOutput& to) {
  to = {
      std::move(from.last_hidden_state),
      std::move(from.pooler_output),
      std::move(from.hidden_states),
      std::move(from.attentions)};
}

}  // namespace

template <typename Output>
Output Model<Output>::operator()(
    const accelerate::TensorMap& inputs, const CallOptions& options) const {
  Output output;
  ModelModule& module = *model_->implementation();
  convert(
      module.forward(model_inputs(inputs, options, module.config.common())),
      output);
  return output;
}

template <typename Output>
std::shared_ptr<torch::nn::Module> Model<Output>::module() const {
  return model_->implementation();
}

template class Model<ModelOutput>;
template class Model<QuestionAnsweringModelOutput>;
template class Model<BaseModelOutput>;

AutoModel AutoModel::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModel(load(Task::base, name, options));
}
AutoModel AutoModel::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModel(make(Task::base, config, options));
}

AutoModelForSequenceClassification
AutoModelForSequenceClassification::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModelForSequenceClassification(
      load(Task::sequence_classification, name, options));
}
AutoModelForSequenceClassification
AutoModelForSequenceClassification::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModelForSequenceClassification(
      make(Task::sequence_classification, config, options));
}

AutoModelForTokenClassification
AutoModelForTokenClassification::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModelForTokenClassification(
      load(Task::token_classification, name, options));
}
AutoModelForTokenClassification AutoModelForTokenClassification::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModelForTokenClassification(
      make(Task::token_classification, config, options));
}

AutoModelForQuestionAnswering AutoModelForQuestionAnswering::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModelForQuestionAnswering(
      load(Task::question_answering, name, options));
}
AutoModelForQuestionAnswering AutoModelForQuestionAnswering::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModelForQuestionAnswering(
      make(Task::question_answering, config, options));
}

AutoModelForMaskedLM AutoModelForMaskedLM::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModelForMaskedLM(load(Task::masked_lm, name, options));
}
AutoModelForMaskedLM AutoModelForMaskedLM::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModelForMaskedLM(make(Task::masked_lm, config, options));
}

AutoModelForCausalLM AutoModelForCausalLM::from_pretrained(
    const std::string& name, const FromPretrainedOptions& options) {
  return AutoModelForCausalLM(load(Task::causal_lm, name, options));
}
AutoModelForCausalLM AutoModelForCausalLM::from_config(
    const Config& config, const FromConfigOptions& options) {
  return AutoModelForCausalLM(make(Task::causal_lm, config, options));
}

}  // namespace transformers
