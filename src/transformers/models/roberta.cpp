// SPDX-License-Identifier: Apache-2.0
// RoBERTa: BERT's encoder with positions that start after the padding id.
//
// Shapes: B batch, T tokens, D width, C classes, V vocabulary.
#include <torch/types.h>

#include "transformers/encoder_layers.h"
#include "transformers/heads.h"
#include "transformers/models/registry.h"

namespace transformers {
namespace {

class RobertaModel : public BertBackbone {
 public:
  explicit RobertaModel(const RobertaConfig& typed, bool with_pooler = true)
      : BertBackbone(
            typed,
            {.prefix = "roberta",
             .with_pooler = with_pooler,
             .skips_padding = true}) {}
};

std::shared_ptr<RobertaModel> without_pooler(const RobertaConfig& config) {
  return std::make_shared<RobertaModel>(config, /*with_pooler=*/false);
}

double classifier_dropout(const RobertaConfig& config) {
  return config.classifier_dropout.value_or(config.hidden_dropout_prob);
}

class RobertaClassificationHead : public Layer {
 public:
  explicit RobertaClassificationHead(const RobertaConfig& config)
      : dropout_(classifier_dropout(config)) {
    const auto width = config.hidden_size;
    dense_ = register_module("dense", std::make_shared<Linear>(width, width));
    out_proj_ = register_module(
        "out_proj", std::make_shared<Linear>(width, config.common.num_labels));
  }
  at::Tensor operator()(const at::Tensor& hidden_BTD) const {
    const auto first_BD = dropout(hidden_BTD.select(1, 0), dropout_, *this);
    return (*out_proj_)(dropout((*dense_)(first_BD).tanh(), dropout_, *this));
  }

 private:
  double dropout_;
  std::shared_ptr<Linear> dense_, out_proj_;
};

class RobertaForSequenceClassification : public RowClassifier {
 public:
  explicit RobertaForSequenceClassification(const RobertaConfig& typed)
      : RowClassifier(without_pooler(typed)) {
    classifier_ = register_module(
        "classifier", std::make_shared<RobertaClassificationHead>(typed));
  }

 protected:
  at::Tensor classify(
      const ModelResult& hidden, const ModelInputs& /*inputs*/) const override {
    return (*classifier_)(hidden.last_hidden_state);
  }

 private:
  std::shared_ptr<RobertaClassificationHead> classifier_;
};

class RobertaLMHead : public Layer {
 public:
  explicit RobertaLMHead(const RobertaConfig& config) {
    const auto width = config.hidden_size;
    bias_V = register_parameter("bias", at::empty({config.vocab_size}));
    dense_ = register_module("dense", std::make_shared<Linear>(width, width));
    norm_ = register_module(
        "layer_norm",
        std::make_shared<LayerNorm>(width, config.layer_norm_eps));
    const bool owned = !config.tie_word_embeddings;
    decoder = register_module(
        "decoder",
        std::make_shared<VocabularyProjection>(
            width,
            config.vocab_size,
            VocabularyProjection::Owned{.weight = owned, .bias = owned}));
  }
  void initialize(const Initializer& init) override { init.fill(bias_V, 0.0); }

  at::Tensor transform(const at::Tensor& hidden_BTD) const {
    return (*norm_)(at::gelu((*dense_)(hidden_BTD)));
  }

  at::Tensor bias_V;
  std::shared_ptr<VocabularyProjection> decoder;

 private:
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
};

class RobertaForMaskedLM : public MaskedLanguageModel {
 public:
  explicit RobertaForMaskedLM(const RobertaConfig& typed)
      : MaskedLanguageModel(without_pooler(typed)) {
    lm_head_ =
        register_module("lm_head", std::make_shared<RobertaLMHead>(typed));
  }

  std::map<std::string, std::string> tied_names() const override {
    return {
        {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"},
        {"lm_head.decoder.bias", "lm_head.bias"}};
  }

 protected:
  at::Tensor predict(const at::Tensor& hidden_BTD) const override {
    return (*lm_head_->decoder)(
        lm_head_->transform(hidden_BTD),
        backbone().input_embeddings(),
        lm_head_->bias_V);
  }

 private:
  std::shared_ptr<RobertaLMHead> lm_head_;
};

class RobertaForTokenClassification : public TokenClassifier {
 public:
  explicit RobertaForTokenClassification(const RobertaConfig& typed)
      : TokenClassifier(
            without_pooler(typed), "classifier", classifier_dropout(typed)) {}
};

class RobertaForQuestionAnswering : public QuestionAnswerer {
 public:
  explicit RobertaForQuestionAnswering(const RobertaConfig& typed)
      : QuestionAnswerer(without_pooler(typed), {}) {}
};

}  // namespace

Architecture roberta() {
  using C = RobertaConfig;
  return {
      .model_type = std::string(C::model_type),
      .read_config = read_config<C>,
      .classes =
          {{Task::base, {"RobertaModel", make_model<RobertaModel, C>()}},
           {Task::sequence_classification,
            {"RobertaForSequenceClassification",
             make_model<RobertaForSequenceClassification, C>()}},
           {Task::token_classification,
            {"RobertaForTokenClassification",
             make_model<RobertaForTokenClassification, C>()}},
           {Task::question_answering,
            {"RobertaForQuestionAnswering",
             make_model<RobertaForQuestionAnswering, C>()}},
           {Task::masked_lm,
            {"RobertaForMaskedLM", make_model<RobertaForMaskedLM, C>()}}},
      .ignored = {"embeddings.position_ids"}};
}

}  // namespace transformers
