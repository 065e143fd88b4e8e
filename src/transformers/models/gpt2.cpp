// SPDX-License-Identifier: Apache-2.0
// GPT-2: a decoder with learned position embeddings.
//
// Shapes: B batch, T tokens, D width.
#include <cmath>

#include <torch/types.h>

#include "transformers/activations.h"
#include "transformers/heads.h"
#include "transformers/models/registry.h"

namespace transformers {
namespace {

// Layers that add to the residual stream have a smaller standard deviation,
// because each block has two such layers.
void initialize_residual(
    const Initializer& init, const Conv1D& layer, std::int64_t blocks) {
  init.normal(
      layer.weight_DE,
      init.std() / std::sqrt(2.0 * static_cast<double>(blocks)));
}

class Gpt2Attention : public Layer {
 public:
  Gpt2Attention(const GPT2Config& config, std::int64_t index)
      : head_dim_(width_of_head(config.n_embd, config.n_head)),
        blocks_(config.n_layer),
        attention_dropout_(config.attn_pdrop),
        residual_dropout_(config.resid_pdrop) {
    if (config.scale_attn_weights) {
      scale_ = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    }
    if (config.scale_attn_by_inverse_layer_idx) {
      scale_ /= static_cast<double>(index + 1);
    }
    c_attn_ = register_module(
        "c_attn", std::make_shared<Conv1D>(3 * config.n_embd, config.n_embd));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(config.n_embd, config.n_embd));
  }

  void initialize(const Initializer& init) override {
    initialize_residual(init, *c_proj_, blocks_);
  }

  at::Tensor operator()(
      const at::Tensor& x_BTD, const LayerContext& context) const {
    const auto parts = (*c_attn_)(x_BTD).chunk(3, -1);
    const auto mixed_BTD = attend(
        split_heads(parts[0], head_dim_),
        split_heads(parts[1], head_dim_),
        split_heads(parts[2], head_dim_),
        context.mask,
        context.attention(is_training() ? attention_dropout_ : 0.0, scale_));
    return dropout((*c_proj_)(mixed_BTD), residual_dropout_, *this);
  }

  const Conv1D& c_attn() const { return *c_attn_; }
  const Conv1D& c_proj() const { return *c_proj_; }
  double scale() const { return scale_; }

 private:
  std::int64_t head_dim_;
  std::int64_t blocks_;
  double attention_dropout_;
  double residual_dropout_;
  double scale_ = 1.0;
  std::shared_ptr<Conv1D> c_attn_, c_proj_;
};

class Gpt2Mlp : public Layer {
 public:
  explicit Gpt2Mlp(const GPT2Config& config)
      : blocks_(config.n_layer),
        dropout_(config.resid_pdrop),
        activation_(activation(config.activation_function)) {
    const auto inner = config.n_inner.value_or(4 * config.n_embd);
    c_fc_ =
        register_module("c_fc", std::make_shared<Conv1D>(inner, config.n_embd));
    c_proj_ = register_module(
        "c_proj", std::make_shared<Conv1D>(config.n_embd, inner));
  }

  void initialize(const Initializer& init) override {
    initialize_residual(init, *c_proj_, blocks_);
  }

  at::Tensor operator()(const at::Tensor& x_BTD) const {
    return dropout((*c_proj_)(activation_((*c_fc_)(x_BTD))), dropout_, *this);
  }

  const Conv1D& c_fc() const { return *c_fc_; }
  const Conv1D& c_proj() const { return *c_proj_; }

 private:
  std::int64_t blocks_;
  double dropout_;
  Activation activation_;
  std::shared_ptr<Conv1D> c_fc_, c_proj_;
};

// region: block
class Gpt2Block : public Block {
 public:
  Gpt2Block(const GPT2Config& config, std::int64_t index)
      : head_dim_(width_of_head(config.n_embd, config.n_head)),
        description_(
            {.norm = accelerate::NormKind::layer_norm,
             .activation = activation_kind(config.activation_function),
             .positions = accelerate::PositionKind::learned,
             .query_heads = config.n_head,
             .key_heads = config.n_head,
             .norm_eps = config.layer_norm_epsilon,
             .attention_dropout = config.attn_pdrop,
             .residual_dropout = config.resid_pdrop}) {
    const auto norm = [&](const char* name) {
      return register_module(
          name,
          std::make_shared<LayerNorm>(
              config.n_embd, config.layer_norm_epsilon));
    };
    ln_1_ = norm("ln_1");
    attn_ =
        register_module("attn", std::make_shared<Gpt2Attention>(config, index));
    ln_2_ = norm("ln_2");
    mlp_ = register_module("mlp", std::make_shared<Gpt2Mlp>(config));
    description_.attention_scale = attn_->scale();
  }

  at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) override {
    if (runs_fused(hidden_BTD, context)) {
      return fused(hidden_BTD, context);
    }
    const auto attended_BTD =
        (*attn_)((*ln_1_)(hidden_BTD), context) + hidden_BTD;
    return attended_BTD + (*mlp_)((*ln_2_)(attended_BTD));
  }

 protected:
  BlockSupport supported_by(
      const accelerate::FusedBlocks& blocks) const override {
    return {.block = blocks.supports_decoder_block(description_, head_dim_)};
  }

 private:
  at::Tensor fused(
      const at::Tensor& hidden_BTD, const LayerContext& context) const {
    accelerate::DecoderBlockOptions options = description_;
    if (!is_training()) {
      options.attention_dropout = 0.0;
      options.residual_dropout = 0.0;
    }
    return context.fused->decoder_block(
        hidden_BTD,
        context.mask_bias,
        {ln_1_->weight_D,
         ln_1_->bias_D,
         attn_->c_attn().weight_DE,
         attn_->c_attn().bias_E,
         attn_->c_proj().weight_DE,
         attn_->c_proj().bias_E,
         ln_2_->weight_D,
         ln_2_->bias_D,
         mlp_->c_fc().weight_DE,
         mlp_->c_fc().bias_E,
         mlp_->c_proj().weight_DE,
         mlp_->c_proj().bias_E},
        options);
  }

  std::int64_t head_dim_;
  accelerate::DecoderBlockOptions description_;
  std::shared_ptr<LayerNorm> ln_1_;
  std::shared_ptr<Gpt2Attention> attn_;
  std::shared_ptr<LayerNorm> ln_2_;
  std::shared_ptr<Gpt2Mlp> mlp_;
};
// endregion

class Gpt2Model : public Backbone {
 public:
  explicit Gpt2Model(const GPT2Config& typed)
      : Backbone(typed), config_(typed) {
    refuse_extra(typed.common, "add_cross_attention", false);
    wte_ = register_module(
        "wte", std::make_shared<Embedding>(typed.vocab_size, typed.n_embd));
    wpe_ = register_module(
        "wpe", std::make_shared<Embedding>(typed.n_positions, typed.n_embd));
    h_ = register_module(
        "h", std::make_shared<BlockList>(typed.n_layer, [&](std::int64_t i) {
          return std::make_shared<Gpt2Block>(typed, i);
        }));
    ln_f_ = register_module(
        "ln_f",
        std::make_shared<LayerNorm>(typed.n_embd, typed.layer_norm_epsilon));
  }

  // region: compute
  ModelResult compute(const ModelInputs& inputs) override {
    ModelResult result;
    auto hidden_BTD = embed(inputs) + (*wpe_)(positions(inputs));
    if (inputs.token_type_ids.defined()) {
      hidden_BTD = hidden_BTD + (*wte_)(inputs.token_type_ids);
    }
    hidden_BTD = dropout(hidden_BTD, config_.embd_pdrop, *this);
    const auto context =
        layer_context(inputs, hidden_BTD, /*is_causal=*/true, result);
    hidden_BTD = (*ln_f_)(run(h_->blocks, hidden_BTD, context, inputs, result));
    if (inputs.options.output_hidden_states) {
      result.hidden_states.push_back(hidden_BTD);
    }
    result.last_hidden_state = hidden_BTD;
    return result;
  }
  // endregion

  const Embedding& input_embeddings() const override { return *wte_; }
  std::int64_t width() const override { return config_.n_embd; }
  double initializer_range() const override {
    return config_.initializer_range;
  }
  std::string base_model_prefix() const override { return "transformer"; }
  Padding padding() const override {
    return {.max_tokens = config_.n_positions, .is_causal = true};
  }
  BatchLimits limits() const override {
    return {
        .words_VD = wte_->weight_VD,
        .positions = config_.n_positions,
        .types = config_.vocab_size};
  }

 private:
  GPT2Config config_;
  std::shared_ptr<Embedding> wte_, wpe_;
  std::shared_ptr<BlockList> h_;
  std::shared_ptr<LayerNorm> ln_f_;
};

// region: head
class Gpt2LmHeadModel : public CausalLM {
 public:
  explicit Gpt2LmHeadModel(const GPT2Config& typed)
      : CausalLM(
            std::make_shared<Gpt2Model>(typed),
            typed.vocab_size,
            typed.tie_word_embeddings,
            "wte") {}
};
// endregion

class Gpt2ForSequenceClassification : public LastTokenClassifier {
 public:
  explicit Gpt2ForSequenceClassification(const GPT2Config& typed)
      : LastTokenClassifier(
            std::make_shared<Gpt2Model>(typed), typed.pad_token_id) {}
};

class Gpt2ForTokenClassification : public TokenClassifier {
 public:
  explicit Gpt2ForTokenClassification(const GPT2Config& typed)
      : TokenClassifier(
            std::make_shared<Gpt2Model>(typed),
            "classifier",
            typed.classifier_dropout.value_or(0.1)) {}
};

class Gpt2ForQuestionAnswering : public QuestionAnswerer {
 public:
  explicit Gpt2ForQuestionAnswering(const GPT2Config& typed)
      : QuestionAnswerer(
            std::make_shared<Gpt2Model>(typed), {.uses_num_labels = false}) {}
};

}  // namespace

// region: architecture
Architecture gpt2() {
  using C = GPT2Config;
  return {
      .model_type = std::string(C::model_type),
      .read_config = read_config<C>,
      .classes =
          {{Task::base, {"GPT2Model", make_model<Gpt2Model, C>()}},
           {Task::causal_lm,
            {"GPT2LMHeadModel", make_model<Gpt2LmHeadModel, C>()}},
           {Task::sequence_classification,
            {"GPT2ForSequenceClassification",
             make_model<Gpt2ForSequenceClassification, C>()}},
           {Task::token_classification,
            {"GPT2ForTokenClassification",
             make_model<Gpt2ForTokenClassification, C>()}},
           {Task::question_answering,
            {"GPT2ForQuestionAnswering",
             make_model<Gpt2ForQuestionAnswering, C>()}}},
      .ignored = {".attn.bias", ".attn.masked_bias"}};
}
// endregion

}  // namespace transformers
