// SPDX-License-Identifier: Apache-2.0
// DistilBERT: a smaller BERT without segments.
//
// Shapes: B batch, T tokens, D width, C classes, V vocabulary.
#include <cmath>

#include <torch/types.h>

#include "accelerate/error.h"
#include "transformers/activations.h"
#include "transformers/encoder_layers.h"
#include "transformers/heads.h"
#include "transformers/models/registry.h"

namespace transformers {
namespace {

constexpr double kEps = 1e-12;

class DistilBertAttention : public torch::nn::Module {
 public:
  explicit DistilBertAttention(const DistilBertConfig& config)
      : head_dim_(width_of_head(config.dim, config.n_heads)),
        dropout_(config.attention_dropout) {
    const auto linear = [&](const char* name) {
      return register_module(
          name, std::make_shared<Linear>(config.dim, config.dim));
    };
    q_lin_ = linear("q_lin");
    k_lin_ = linear("k_lin");
    v_lin_ = linear("v_lin");
    out_lin_ = linear("out_lin");
  }

  at::Tensor operator()(
      const at::Tensor& x_BTD, const LayerContext& context) const {
    return (*out_lin_)(attend(
        split_heads((*q_lin_)(x_BTD), head_dim_),
        split_heads((*k_lin_)(x_BTD), head_dim_),
        split_heads((*v_lin_)(x_BTD), head_dim_),
        context.mask,
        context.attention(
            is_training() ? dropout_ : 0.0,
            1.0 / std::sqrt(static_cast<double>(head_dim_)))));
  }

  /// Returns the linear layers in the order of a fused block's parameters.
  std::vector<std::shared_ptr<Linear>> parts() const {
    return {q_lin_, k_lin_, v_lin_, out_lin_};
  }

 private:
  std::int64_t head_dim_;
  double dropout_;
  std::shared_ptr<Linear> q_lin_, k_lin_, v_lin_, out_lin_;
};

class DistilBertFfn : public Layer {
 public:
  explicit DistilBertFfn(const DistilBertConfig& config)
      : dropout_(config.dropout), activation_(activation(config.activation)) {
    lin1_ = register_module(
        "lin1", std::make_shared<Linear>(config.dim, config.hidden_dim));
    lin2_ = register_module(
        "lin2", std::make_shared<Linear>(config.hidden_dim, config.dim));
  }
  at::Tensor operator()(const at::Tensor& x_BTD) const {
    return dropout((*lin2_)(activation_((*lin1_)(x_BTD))), dropout_, *this);
  }

  const Linear& inner() const { return *lin1_; }
  const Linear& outer() const { return *lin2_; }

 private:
  double dropout_;
  Activation activation_;
  std::shared_ptr<Linear> lin1_, lin2_;
};

class DistilBertBlock : public Block {
 public:
  explicit DistilBertBlock(const DistilBertConfig& config)
      : head_dim_(width_of_head(config.dim, config.n_heads)),
        description_(
            {.activation = activation_kind(config.activation),
             .heads = config.n_heads,
             .layer_norm_eps = kEps,
             .attention_dropout = config.attention_dropout,
             .hidden_dropout = config.dropout,
             .drops_attention_output = false}) {
    attention_ = register_module(
        "attention", std::make_shared<DistilBertAttention>(config));
    attention_norm_ = register_module(
        "sa_layer_norm", std::make_shared<LayerNorm>(config.dim, kEps));
    ffn_ = register_module("ffn", std::make_shared<DistilBertFfn>(config));
    output_norm_ = register_module(
        "output_layer_norm", std::make_shared<LayerNorm>(config.dim, kEps));
  }

  at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) override {
    if (runs_fused(hidden_BTD, context)) {
      return context.fused->encoder_block(
          hidden_BTD,
          context.mask_bias,
          fused_parameters(),
          call_options(description_, context, is_training()));
    }
    const auto attended_BTD =
        (*attention_norm_)((*attention_)(hidden_BTD, context) + hidden_BTD);
    return (*output_norm_)((*ffn_)(attended_BTD) + attended_BTD);
  }

 protected:
  BlockSupport supported_by(
      const accelerate::FusedBlocks& blocks) const override {
    return {
        blocks.supports_encoder_block(description_, head_dim_),
        blocks.supports_unpadding(head_dim_)};
  }

 private:
  // Returns the parameters in the order of `FusedBlocks::encoder_block`.
  std::vector<at::Tensor> fused_parameters() const {
    std::vector<at::Tensor> all;
    const auto add = [&](const at::Tensor& weight, const at::Tensor& bias) {
      all.push_back(weight);
      all.push_back(bias);
    };
    for (const auto& part : attention_->parts()) {
      add(part->weight_ED, part->bias_E);
    }
    add(attention_norm_->weight_D, attention_norm_->bias_D);
    add(ffn_->inner().weight_ED, ffn_->inner().bias_E);
    add(ffn_->outer().weight_ED, ffn_->outer().bias_E);
    add(output_norm_->weight_D, output_norm_->bias_D);
    return all;
  }

  std::int64_t head_dim_;
  accelerate::EncoderBlockOptions description_;
  std::shared_ptr<DistilBertAttention> attention_;
  std::shared_ptr<LayerNorm> attention_norm_;
  std::shared_ptr<DistilBertFfn> ffn_;
  std::shared_ptr<LayerNorm> output_norm_;
};

class DistilBertTransformer : public torch::nn::Module {
 public:
  explicit DistilBertTransformer(const DistilBertConfig& config) {
    layer = register_module(
        "layer", std::make_shared<BlockList>(config.n_layers, [&](auto) {
          return std::make_shared<DistilBertBlock>(config);
        }));
  }
  std::shared_ptr<BlockList> layer;
};

class DistilBertModel : public Backbone {
 public:
  explicit DistilBertModel(const DistilBertConfig& typed)
      : Backbone(typed), config_(typed) {
    embeddings_ = register_module(
        "embeddings",
        std::make_shared<SummedEmbeddings>(SummedEmbeddings::Options{
            .width = typed.dim,
            .words = typed.vocab_size,
            .positions = typed.max_position_embeddings,
            .padding_id = typed.pad_token_id,
            .sinusoidal = typed.sinusoidal_pos_embds,
            .norm_eps = kEps,
            .dropout = typed.dropout}));
    transformer_ = register_module(
        "transformer", std::make_shared<DistilBertTransformer>(typed));
  }

  ModelResult compute(const ModelInputs& inputs) override {
    ModelResult result;
    auto hidden_BTD = (*embeddings_)(inputs);
    const auto context =
        layer_context(inputs, hidden_BTD, /*is_causal=*/false, result);
    hidden_BTD = run_encoder(
        transformer_->layer->blocks, hidden_BTD, context, inputs, result);
    if (inputs.options.output_hidden_states) {
      result.hidden_states.push_back(hidden_BTD);
    }
    result.last_hidden_state = hidden_BTD;
    return result;
  }

  const Embedding& input_embeddings() const override {
    return *embeddings_->words;
  }
  std::int64_t width() const override { return config_.dim; }
  double initializer_range() const override {
    return config_.initializer_range;
  }
  std::string base_model_prefix() const override { return "distilbert"; }
  Padding padding() const override {
    return {config_.max_position_embeddings, config_.pad_token_id.value_or(0)};
  }
  BatchLimits limits() const override {
    return {
        .words_VD = embeddings_->words->weight_VD,
        .positions = config_.max_position_embeddings};
  }
  bool can_unpad() const override { return transformer_->layer->can_unpad(); }

 private:
  DistilBertConfig config_;
  std::shared_ptr<SummedEmbeddings> embeddings_;
  std::shared_ptr<DistilBertTransformer> transformer_;
};

class DistilBertForSequenceClassification : public RowClassifier {
 public:
  explicit DistilBertForSequenceClassification(const DistilBertConfig& typed)
      : RowClassifier(std::make_shared<DistilBertModel>(typed)),
        dropout_(typed.seq_classif_dropout) {
    pre_classifier_ = register_module(
        "pre_classifier", std::make_shared<Linear>(typed.dim, typed.dim));
    classifier_ = register_module(
        "classifier",
        std::make_shared<Linear>(typed.dim, typed.common.num_labels));
  }

 protected:
  at::Tensor classify(
      const ModelResult& hidden, const ModelInputs& /*inputs*/) const override {
    const auto first_BD =
        (*pre_classifier_)(hidden.last_hidden_state.select(1, 0)).relu();
    return (*classifier_)(dropout(first_BD, dropout_, *this));
  }

 private:
  double dropout_;
  std::shared_ptr<Linear> pre_classifier_, classifier_;
};

class DistilBertForMaskedLM : public MaskedLanguageModel {
 public:
  explicit DistilBertForMaskedLM(const DistilBertConfig& typed)
      : MaskedLanguageModel(std::make_shared<DistilBertModel>(typed)),
        activation_(activation(typed.activation)) {
    transform_ = register_module(
        "vocab_transform", std::make_shared<Linear>(typed.dim, typed.dim));
    norm_ = register_module(
        "vocab_layer_norm", std::make_shared<LayerNorm>(typed.dim, kEps));
    projector_ = register_module(
        "vocab_projector",
        std::make_shared<VocabularyProjection>(
            typed.dim,
            typed.vocab_size,
            VocabularyProjection::Owned{
                .weight = !typed.tie_word_embeddings, .bias = true}));
  }

  std::map<std::string, std::string> tied_names() const override {
    return {
        {"vocab_projector.weight",
         "distilbert.embeddings.word_embeddings.weight"}};
  }

 protected:
  at::Tensor predict(const at::Tensor& hidden_BTD) const override {
    return (*projector_)(
        (*norm_)(activation_((*transform_)(hidden_BTD))),
        backbone().input_embeddings());
  }

 private:
  Activation activation_;
  std::shared_ptr<Linear> transform_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<VocabularyProjection> projector_;
};

class DistilBertForTokenClassification : public TokenClassifier {
 public:
  explicit DistilBertForTokenClassification(const DistilBertConfig& typed)
      : TokenClassifier(
            std::make_shared<DistilBertModel>(typed),
            "classifier",
            typed.dropout) {}
};

class DistilBertForQuestionAnswering : public QuestionAnswerer {
 public:
  explicit DistilBertForQuestionAnswering(const DistilBertConfig& typed)
      : QuestionAnswerer(
            std::make_shared<DistilBertModel>(typed),
            {.dropout = typed.qa_dropout}) {}
};

}  // namespace

Architecture distilbert() {
  using C = DistilBertConfig;
  return {
      .model_type = std::string(C::model_type),
      .read_config = read_config<C>,
      .classes =
          {{Task::base, {"DistilBertModel", make_model<DistilBertModel, C>()}},
           {Task::sequence_classification,
            {"DistilBertForSequenceClassification",
             make_model<DistilBertForSequenceClassification, C>()}},
           {Task::token_classification,
            {"DistilBertForTokenClassification",
             make_model<DistilBertForTokenClassification, C>()}},
           {Task::question_answering,
            {"DistilBertForQuestionAnswering",
             make_model<DistilBertForQuestionAnswering, C>()}},
           {Task::masked_lm,
            {"DistilBertForMaskedLM", make_model<DistilBertForMaskedLM, C>()}}},
      .ignored = {"embeddings.position_ids"}};
}

}  // namespace transformers
