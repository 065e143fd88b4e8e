// SPDX-License-Identifier: Apache-2.0
// BERT: an encoder with word, position and segment embeddings.
//
// Shapes: B batch, T tokens, D width, C classes, V vocabulary.
#include <torch/types.h>

#include "transformers/encoder_layers.h"
#include "transformers/fused.h"
#include "transformers/heads.h"
#include "transformers/models/registry.h"

namespace transformers {
namespace {

class BertModel : public BertBackbone {
 public:
  explicit BertModel(const BertConfig& typed, bool with_pooler = true)
      : BertBackbone(typed, {.prefix = "bert", .with_pooler = with_pooler}) {}
};

std::shared_ptr<BertModel> without_pooler(const BertConfig& config) {
  return std::make_shared<BertModel>(config, /*with_pooler=*/false);
}

double classifier_dropout(const BertConfig& config) {
  return config.classifier_dropout.value_or(config.hidden_dropout_prob);
}

class BertForSequenceClassification : public RowClassifier {
 public:
  explicit BertForSequenceClassification(const BertConfig& typed)
      : RowClassifier(std::make_shared<BertModel>(typed)),
        dropout_(classifier_dropout(typed)) {
    classifier_ = register_module(
        "classifier",
        std::make_shared<Linear>(typed.hidden_size, typed.common.num_labels));
  }

 protected:
  at::Tensor classify(
      const ModelResult& hidden, const ModelInputs& /*inputs*/) const override {
    return apply_linear(
        *classifier_, dropout(hidden.pooler_output, dropout_, *this));
  }

 private:
  double dropout_;
  std::shared_ptr<Linear> classifier_;
};

class BertPredictionTransform : public torch::nn::Module {
 public:
  explicit BertPredictionTransform(const BertConfig& config)
      : activation_(activation(config.hidden_act)) {
    const auto width = config.hidden_size;
    dense_ = register_module("dense", std::make_shared<Linear>(width, width));
    norm_ = register_module(
        "LayerNorm", std::make_shared<LayerNorm>(width, config.layer_norm_eps));
  }
  at::Tensor operator()(const at::Tensor& hidden_BTD) const {
    return (*norm_)(activation_((*dense_)(hidden_BTD)));
  }

 private:
  Activation activation_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
};

class BertPredictions : public Layer {
 public:
  explicit BertPredictions(const BertConfig& config) {
    bias_V = register_parameter("bias", at::empty({config.vocab_size}));
    transform = register_module(
        "transform", std::make_shared<BertPredictionTransform>(config));
    const bool owned = !config.tie_word_embeddings;
    decoder = register_module(
        "decoder",
        std::make_shared<VocabularyProjection>(
            config.hidden_size,
            config.vocab_size,
            VocabularyProjection::Owned{.weight = owned, .bias = owned}));
  }
  void initialize(const Initializer& init) override { init.fill(bias_V, 0.0); }

  at::Tensor bias_V;
  std::shared_ptr<BertPredictionTransform> transform;
  std::shared_ptr<VocabularyProjection> decoder;
};

class BertPredictionHead : public torch::nn::Module {
 public:
  explicit BertPredictionHead(const BertConfig& config) {
    predictions = register_module(
        "predictions", std::make_shared<BertPredictions>(config));
  }
  std::shared_ptr<BertPredictions> predictions;
};

class BertForMaskedLM : public MaskedLanguageModel {
 public:
  explicit BertForMaskedLM(const BertConfig& typed)
      : MaskedLanguageModel(without_pooler(typed)) {
    cls_ = register_module("cls", std::make_shared<BertPredictionHead>(typed));
  }

  std::map<std::string, std::string> tied_names() const override {
    return {
        {"cls.predictions.decoder.weight",
         "bert.embeddings.word_embeddings.weight"},
        {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  }

 protected:
  at::Tensor predict(const at::Tensor& hidden_BTD) const override {
    const BertPredictions& head = *cls_->predictions;
    return (*head.decoder)(
        (*head.transform)(hidden_BTD),
        backbone().input_embeddings(),
        head.bias_V);
  }

 private:
  std::shared_ptr<BertPredictionHead> cls_;
};

class BertForTokenClassification : public TokenClassifier {
 public:
  explicit BertForTokenClassification(const BertConfig& typed)
      : TokenClassifier(
            without_pooler(typed), "classifier", classifier_dropout(typed)) {}
};

class BertForQuestionAnswering : public QuestionAnswerer {
 public:
  explicit BertForQuestionAnswering(const BertConfig& typed)
      : QuestionAnswerer(without_pooler(typed), {}) {}
};

}  // namespace

Architecture bert() {
  using C = BertConfig;
  return {
      .model_type = std::string(C::model_type),
      .read_config = read_config<C>,
      .classes =
          {{Task::base, {"BertModel", make_model<BertModel, C>()}},
           {Task::sequence_classification,
            {"BertForSequenceClassification",
             make_model<BertForSequenceClassification, C>()}},
           {Task::token_classification,
            {"BertForTokenClassification",
             make_model<BertForTokenClassification, C>()}},
           {Task::question_answering,
            {"BertForQuestionAnswering",
             make_model<BertForQuestionAnswering, C>()}},
           {Task::masked_lm,
            {"BertForMaskedLM", make_model<BertForMaskedLM, C>()}}},
      .ignored = {"embeddings.position_ids"}};
}

}  // namespace transformers
