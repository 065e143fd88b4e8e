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

class BertEmbeddings : public Layer {
 public:
  explicit BertEmbeddings(const BertConfig& config)
      : dropout_(config.hidden_dropout_prob),
        eps_(config.layer_norm_eps),
        padding_id_(config.pad_token_id.value_or(-1)) {
    const auto width = config.hidden_size;
    words = register_module(
        "word_embeddings",
        std::make_shared<Embedding>(
            config.vocab_size, width, config.pad_token_id));
    positions_ = register_module(
        "position_embeddings",
        std::make_shared<Embedding>(config.max_position_embeddings, width));
    types_ = register_module(
        "token_type_embeddings",
        std::make_shared<Embedding>(config.type_vocab_size, width));
    norm_ = register_module(
        "LayerNorm", std::make_shared<LayerNorm>(width, config.layer_norm_eps));
  }

  at::Tensor operator()(
      const at::Tensor& words_BTD,
      const at::Tensor& token_type_ids_BT,
      const at::Tensor& position_ids_BT) const {
    // Without type ids, every token has type 0.
    const auto types_BTD = token_type_ids_BT.defined()
                               ? (*types_)(token_type_ids_BT)
                               : types_->weight_VD.select(0, 0);
    const auto positions_BTD = (*positions_)(position_ids_BT);
    // In bf16, the two small tensors are added first, so that the batch is read
    // only once.
    const auto sum_BTD =
        words_BTD.scalar_type() == at::kBFloat16
            ? words_BTD + (types_BTD + positions_BTD).to(at::kBFloat16)
            : words_BTD + types_BTD + positions_BTD;
    return dropout((*norm_)(sum_BTD), dropout_, *this);
  }

  // Computes the embeddings in one fused function. Returns an undefined tensor
  // if that is not supported.
  at::Tensor fused(const ModelInputs& inputs) const {
    const auto* const blocks = blocks_for(words->weight_VD);
    if (blocks == nullptr || !inputs.input_ids.defined() ||
        inputs.position_ids.defined()) {
      return {};
    }
    const at::Tensor& types = inputs.token_type_ids;
    return blocks->summed_embedding(
        {.words = words->weight_VD,
         .positions = positions_->weight_VD,
         .types = types_->weight_VD,
         .weight = norm_->weight_D,
         .shift = norm_->bias_D,
         .ids = inputs.input_ids.to(at::kLong),
         .type_ids = types.defined() ? types.to(at::kLong) : types,
         .padding_id = padding_id_,
         .eps = eps_,
         .dropout = is_training() ? dropout_ : 0.0});
  }

  std::shared_ptr<Embedding> words;

 private:
  double dropout_;
  double eps_;
  std::int64_t padding_id_;
  std::shared_ptr<Embedding> positions_, types_;
  std::shared_ptr<LayerNorm> norm_;
};

class BertModel : public Backbone {
 public:
  explicit BertModel(const BertConfig& typed, bool with_pooler = true)
      : Backbone(typed), config_(typed) {
    refuse_extra(typed.common, "position_embedding_type", "absolute");
    refuse_extra(typed.common, "add_cross_attention", false);
    embeddings_ =
        register_module("embeddings", std::make_shared<BertEmbeddings>(typed));
    encoder_ = register_module(
        "encoder", std::make_shared<Encoder>(EncoderConfig(typed)));
    if (with_pooler) {
      pooler_ = register_module(
          "pooler", std::make_shared<Pooler>(typed.hidden_size));
    }
  }

  ModelResult compute(const ModelInputs& inputs) override {
    ModelResult result;
    auto hidden_BTD = embeddings_->fused(inputs);
    if (!hidden_BTD.defined()) {
      hidden_BTD = (*embeddings_)(
          embed(inputs), inputs.token_type_ids, positions(inputs));
    }
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
  std::string base_model_prefix() const override { return "bert"; }
  Padding padding() const override {
    return {config_.max_position_embeddings, config_.pad_token_id.value_or(0)};
  }
  BatchLimits limits() const override {
    return {
        .words_VD = embeddings_->words->weight_VD,
        .positions = config_.max_position_embeddings,
        .types = config_.type_vocab_size};
  }
  bool can_unpad() const override {
    return !config_.is_decoder && encoder_->can_unpad();
  }

 private:
  BertConfig config_;
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
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
