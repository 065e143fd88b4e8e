// SPDX-License-Identifier: Apache-2.0
#include "transformers/heads.h"

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "device/lazy_tensor.h"
#include "transformers/losses.h"

namespace transformers {

HeadModule::HeadModule(const std::shared_ptr<Backbone>& backbone)
    : ModelModule(backbone->config),
      backbone_(register_module(backbone->base_model_prefix(), backbone)) {
}

bool HeadModule::is_recordable(const ModelInputs& inputs) const {
  const bool has_loss =
      inputs.labels.defined() ||
      (inputs.start_positions.defined() && inputs.end_positions.defined());
  return (record_policy_.enabled || !record_policy_.disabled_reason.empty()) &&
         has_loss && is_training() && at::GradMode::is_enabled() &&
         !inputs.options.output_hidden_states &&
         !inputs.options.output_attentions && !inputs.inputs_embeds.defined() &&
         inputs.batch() > 0 && inputs.tokens() > 0;
}

std::string HeadModule::eager_reason(const ModelInputs& inputs) const {
  // In a large step, kernels run longer than their launches take. A CUDA graph
  // would not be faster and would take memory.
  constexpr std::int64_t kMaxValues = std::int64_t{8} << 20;
  if (gradient_checkpointing_) {
    return "gradient checkpointing recomputes the layers in the backward pass";
  }
  if (inputs.batch() * inputs.tokens() * backbone_->width() > kMaxValues) {
    return accelerate::str_cat(
        "batches of ",
        inputs.batch(),
        " x ",
        inputs.tokens(),
        " tokens keep the GPU busy without CUDA graphs");
  }
  return {};
}

BatchLimits HeadModule::limits() const {
  BatchLimits limits = backbone_->limits();
  const Labels own = labels();
  limits.labels = own.kind;
  limits.classes = own.classes;
  return limits;
}

ModelResult HeadModule::run_checked(const ModelInputs& inputs) {
  if (!is_recordable(inputs)) {
    return ModelModule::run_checked(inputs);
  }
  if (!recorder_) {
    recorder_ = std::make_unique<ModelRecorder>(*this, record_policy_);
  }
  if (!recorder_->is_enabled()) {
    return ModelModule::run_checked(inputs);
  }
  if (const std::string reason = eager_reason(inputs); !reason.empty()) {
    recorder_->decline(reason);
    return ModelModule::run_checked(inputs);
  }
  return recorder_->run(inputs, padding(), [this](const ModelInputs& in) {
    return ModelModule::run_checked(in);
  });
}

Padding HeadModule::per_token_padding() const {
  Padding allowed = backbone_->padding();
  allowed.per_token = true;
  return allowed;
}

std::int64_t HeadModule::recorded_steps() const {
  return recorder_ ? recorder_->num_replays() : 0;
}

double HeadModule::initializer_range() const {
  return backbone_->initializer_range();
}
std::string HeadModule::base_model_prefix() const {
  return backbone_->base_model_prefix();
}
void HeadModule::set_gradient_checkpointing(bool on) {
  gradient_checkpointing_ = on;
  backbone_->set_gradient_checkpointing(on);
}
// CUDA graphs are captured for one autocast policy, so a new policy discards
// them.
void HeadModule::set_autocast(
    std::optional<accelerate::AutocastPolicy> policy) {
  recorder_.reset();
  ModelModule::set_autocast(std::move(policy));
}
void HeadModule::set_record_policy(const accelerate::RecordPolicy& policy) {
  recorder_.reset();
  record_policy_ = policy;
}
void HeadModule::set_eager_attention(bool on) {
  recorder_.reset();
  backbone_->set_eager_attention(on);
}

ModelResult RowClassifier::compute(const ModelInputs& inputs) {
  const ModelResult hidden = backbone().compute(inputs);
  ModelResult result;
  result.hidden_states = hidden.hidden_states;
  result.attentions = hidden.attentions;
  result.logits = classify(hidden, inputs);
  if (inputs.labels.defined()) {
    result.loss = sequence_loss(result.logits, inputs.labels, common());
  }
  return result;
}

Padding RowClassifier::padding() const {
  Padding allowed = backbone().padding();
  allowed.can_unpad = backbone().can_unpad();
  return allowed;
}

ModelResult MaskedLanguageModel::compute(const ModelInputs& inputs) {
  ModelResult result = backbone().compute(inputs);
  result.logits = predict(result.last_hidden_state);
  if (inputs.labels.defined()) {
    result.loss = token_loss(result.logits, inputs.labels);
  }
  return result;
}

TokenClassifier::TokenClassifier(
    const std::shared_ptr<Backbone>& backbone,
    const std::string& name,
    double dropout)
    : HeadModule(backbone), dropout_(dropout) {
  classifier_ = register_module(
      name, std::make_shared<Linear>(backbone->width(), common().num_labels));
}

ModelResult TokenClassifier::compute(const ModelInputs& inputs) {
  ModelResult result = backbone().compute(inputs);
  result.logits =
      (*classifier_)(dropout(result.last_hidden_state, dropout_, *this));
  if (inputs.labels.defined()) {
    result.loss = token_loss(result.logits, inputs.labels);
  }
  return result;
}

QuestionAnswerer::QuestionAnswerer(
    const std::shared_ptr<Backbone>& backbone, const Options& options)
    : HeadModule(backbone), dropout_(options.dropout) {
  if (options.uses_num_labels && common().num_labels != 2) {
    throw accelerate::ArgumentError(
        accelerate::str_cat(
            "`num_labels` is ",
            common().num_labels,
            ", but question answering needs two labels, one for the start and "
            "one for the end"),
        "set `num_labels` to 2, or leave it out");
  }
  qa_outputs_ = register_module(
      "qa_outputs", std::make_shared<Linear>(backbone->width(), 2));
}

ModelResult QuestionAnswerer::compute(const ModelInputs& inputs) {
  ModelResult result = backbone().compute(inputs);
  const auto logits_BT2 =
      (*qa_outputs_)(dropout(result.last_hidden_state, dropout_, *this));
  result.start_logits = logits_BT2.select(-1, 0).contiguous();
  result.end_logits = logits_BT2.select(-1, 1).contiguous();
  if (inputs.start_positions.defined() && inputs.end_positions.defined()) {
    result.loss = span_loss(
        result.start_logits,
        result.end_logits,
        inputs.start_positions,
        inputs.end_positions);
  }
  return result;
}

LastTokenClassifier::LastTokenClassifier(
    const std::shared_ptr<Backbone>& backbone,
    std::optional<std::int64_t> pad_token_id)
    : RowClassifier(backbone), pad_token_id_(pad_token_id) {
  score_ = register_module(
      "score",
      std::make_shared<Linear>(
          backbone->width(), common().num_labels, /*with_bias=*/false));
}

// The last token is found by comparing ids with the padding id, so padding must
// use that id.
Padding LastTokenClassifier::padding() const {
  Padding allowed = pad_token_id_ ? backbone().padding() : Padding{};
  allowed.id = pad_token_id_.value_or(0);
  return allowed;
}

at::Tensor LastTokenClassifier::last_tokens_B(const ModelInputs& inputs) const {
  const auto options = at::TensorOptions(at::kLong);
  if (!pad_token_id_ && inputs.batch() != 1) {
    throw accelerate::ArgumentError(
        accelerate::str_cat(
            "the config has no `pad_token_id`, which is needed to find the "
            "last token of each of the ",
            inputs.batch(),
            " rows in the batch"),
        "set `pad_token_id` in the config, or pass one row at a time");
  }
  if (!pad_token_id_ || !inputs.input_ids.defined()) {
    return at::full({inputs.batch()}, inputs.tokens() - 1, options);
  }
  // The rightmost token that is not padding, whichever side is padded.
  const auto positions_T =
      at::arange(inputs.tokens(), options.device(inputs.input_ids.device()));
  return (positions_T * inputs.input_ids.ne(*pad_token_id_)).argmax(-1);
}

at::Tensor LastTokenClassifier::classify(
    const ModelResult& hidden, const ModelInputs& inputs) const {
  const auto& hidden_BTD = hidden.last_hidden_state;
  const auto rows_B = at::arange(
      inputs.batch(), at::TensorOptions(at::kLong).device(hidden_BTD.device()));
  const auto last_B = last_tokens_B(inputs).to(hidden_BTD.device());
  return (*score_)(hidden_BTD.index({rows_B, last_B}));
}

VocabularyProjection::VocabularyProjection(
    std::int64_t width, std::int64_t vocab_size, const Owned& owned)
    : width_(width), vocab_size_(vocab_size) {
  if (owned.weight) {
    untie("weight");
  }
  if (owned.bias) {
    untie("bias");
  }
}

void VocabularyProjection::untie(const std::string& name) {
  if (name == "weight") {
    weight_VD_ = register_parameter(name, at::empty({vocab_size_, width_}));
  } else {
    bias_V_ = register_parameter(name, at::empty({vocab_size_}));
  }
}

void VocabularyProjection::initialize(const Initializer& init) {
  init.normal(weight_VD_);
  init.fill(bias_V_, 0.0);
}

at::Tensor VocabularyProjection::operator()(
    const at::Tensor& hidden_BTD,
    const Embedding& tied,
    const at::Tensor& tied_bias_V) const {
  return at::linear(
      hidden_BTD, weight_VD(tied), bias_V_.defined() ? bias_V_ : tied_bias_V);
}

CausalLM::CausalLM(
    const std::shared_ptr<Backbone>& backbone,
    std::int64_t vocab_size,
    bool tied,
    std::string embedding_name)
    : HeadModule(backbone), embedding_name_(std::move(embedding_name)) {
  lm_head_ = register_module(
      "lm_head",
      std::make_shared<VocabularyProjection>(
          backbone->width(),
          vocab_size,
          VocabularyProjection::Owned{.weight = !tied}));
}

std::map<std::string, std::string> CausalLM::tied_names() const {
  return {
      {"lm_head.weight",
       base_model_prefix() + "." + embedding_name_ + ".weight"}};
}

ModelResult CausalLM::compute(const ModelInputs& inputs) {
  ModelResult result = backbone().compute(inputs);
  const Embedding& embedding = backbone().input_embeddings();
  const at::Tensor& weight_VD = lm_head_->weight_VD(embedding);
  const auto* fused = blocks_for(weight_VD);
  const bool has_fused_loss = fused != nullptr && inputs.labels.defined() &&
                              is_training() && at::GradMode::is_enabled();
  if (has_fused_loss) {
    result.loss = fused->linear_cross_entropy(
        result.last_hidden_state,
        weight_VD,
        next_labels(inputs.labels).reshape(-1).to(at::kLong));
    if (!inputs.options.output_logits) {
      result.before_logits = std::move(result.last_hidden_state);
      return result;
    }
  }
  result.logits = (*lm_head_)(result.last_hidden_state, embedding);
  if (inputs.labels.defined() && !has_fused_loss) {
    result.loss = causal_loss(result.logits, inputs.labels);
  }
  return result;
}

ModelResult CausalLM::run_checked(const ModelInputs& inputs) {
  ModelResult result = HeadModule::run_checked(inputs);
  if (result.before_logits.defined()) {
    result.logits = lazy_logits(result.before_logits);
  }
  return result;
}

// Changing the weight in place, as the optimizer does, changes its version.
at::Tensor CausalLM::lazy_logits(const at::Tensor& hidden_BTD) const {
  const at::Tensor weight_VD =
      lm_head_->weight_VD(backbone().input_embeddings());
  return accelerate::lazy_tensor(
      {hidden_BTD.size(0), hidden_BTD.size(1), weight_VD.size(0)},
      at::kFloat,
      hidden_BTD.device(),
      [hidden_BTD,
       weight_VD,
       version = weight_VD._version(),
       policy = autocast_policy().value()] {
        if (weight_VD._version() != version) {
          throw accelerate::StateError(
              "the logits were read for the first time after the weights of "
              "the model had changed",
              "read the logits before `optimizer.step()`, or call the model "
              "with `{.output_logits = true}`");
        }
        const accelerate::AutocastGuard guard(
            policy.device, policy.precision, policy.autocast);
        return at::linear(hidden_BTD, weight_VD).to(at::kFloat);
      });
}

}  // namespace transformers
