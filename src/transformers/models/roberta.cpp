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

class RobertaEmbeddings : public Layer {
 public:
  explicit RobertaEmbeddings(const RobertaConfig& config)
      : dropout_(config.hidden_dropout_prob) {
    const auto width = config.hidden_size;
    words = register_module(
        "word_embeddings",
        std::make_shared<Embedding>(
            config.vocab_size, width, config.pad_token_id));
    types_ = register_module(
        "token_type_embeddings",
        std::make_shared<Embedding>(config.type_vocab_size, width));
    norm_ = register_module(
        "LayerNorm", std::make_shared<LayerNorm>(width, config.layer_norm_eps));
    positions_ = register_module(
        "position_embeddings",
        std::make_shared<Embedding>(
            config.max_position_embeddings, width, config.pad_token_id));
  }

  at::Tensor operator()(
      const at::Tensor& words_BTD,
      const at::Tensor& token_type_ids_BT,
      const at::Tensor& position_ids_BT) const {
    const auto types_BTD = token_type_ids_BT.defined()
                               ? (*types_)(token_type_ids_BT)
                               : types_->weight_VD.select(0, 0);
    const auto sum_BTD = words_BTD + types_BTD + (*positions_)(position_ids_BT);
    return dropout((*norm_)(sum_BTD), dropout_, *this);
  }

  std::shared_ptr<Embedding> words;

 private:
  double dropout_;
  std::shared_ptr<Embedding> types_, positions_;
  std::shared_ptr<LayerNorm> norm_;
};

class RobertaModel : public Backbone {
 public:
  explicit RobertaModel(const RobertaConfig& typed, bool with_pooler = true)
      : Backbone(typed), config_(typed) {
    refuse_extra(typed.common, "position_embedding_type", "absolute");
    refuse_extra(typed.common, "add_cross_attention", false);
    embeddings_ = register_module(
        "embeddings", std::make_shared<RobertaEmbeddings>(typed));
    encoder_ = register_module(
        "encoder", std::make_shared<Encoder>(EncoderConfig(typed)));
    if (with_pooler) {
      pooler_ = register_module(
          "pooler", std::make_shared<Pooler>(typed.hidden_size));
    }
  }

  ModelResult compute(const ModelInputs& inputs) override {
    ModelResult result;
    auto hidden_BTD = (*embeddings_)(
        embed(inputs), inputs.token_type_ids, position_ids_BT(inputs));
    const auto context =
        layer_context(inputs, hidden_BTD, config_.is_decoder, result);
    hidden_BTD =
        run_encoder(encoder_->blocks(), hidden_BTD, context, inputs, result);
    if (inputs.options.output_hidden_states) {
      result.hidden_states.push_back(hidden_BTD);
    }
    if (pooler_) {
      result.pooler_output = (*pooler_)(hidden_BTD);
    }
    result.last_hidden_state = hidden_BTD;
    return result;
  }

  const Embedding& input_embeddings() const override {
    return *embeddings_->words;
  }
  std::int64_t width() const override { return config_.hidden_size; }
  double initializer_range() const override {
    return config_.initializer_range;
  }
  std::string base_model_prefix() const override { return "roberta"; }
  // Positions start after the padding id, so not all position embeddings are
  // available for tokens.
  Padding padding() const override {
    const auto id = config_.pad_token_id.value_or(0);
    return {config_.max_position_embeddings - id - 1, id};
  }
  BatchLimits limits() const override {
    const auto padding = config_.pad_token_id.value_or(0);
    return {
        .words_VD = embeddings_->words->weight_VD,
        .positions = config_.max_position_embeddings - padding - 1,
        .first_position = padding + 1,
        .skipped_id = padding,
        .types = config_.type_vocab_size};
  }
  bool can_unpad() const override {
    return !config_.is_decoder && encoder_->can_unpad();
  }

 private:
  // The positions of real tokens start at the padding id plus one. Padding has
  // the padding id as its position.
  at::Tensor position_ids_BT(const ModelInputs& inputs) const {
    if (inputs.position_ids.defined()) {
      return inputs.position_ids;
    }
    const std::int64_t padding = config_.pad_token_id.value_or(0);
    if (!inputs.input_ids.defined()) {
      return positions(inputs) + (padding + 1);
    }
    const auto real_BT = inputs.input_ids.ne(padding).to(at::kLong);
    return real_BT.cumsum(1) * real_BT + padding;
  }

  RobertaConfig config_;
  std::shared_ptr<RobertaEmbeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
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
