// SPDX-License-Identifier: Apache-2.0
// Llama: a decoder with rotary embeddings and grouped-query attention.
//
// Shapes: B batch, T tokens, D width, H heads.
#include <cmath>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/activations.h"
#include "transformers/heads.h"
#include "transformers/models/registry.h"
#include "transformers/rope.h"

namespace transformers {
namespace {

std::int64_t head_dim(const LlamaConfig& config) {
  // As in Python, the hidden size must be divisible by the number of heads even
  // if `head_dim` is set.
  return config.head_dim.value_or(
      width_of_head(config.hidden_size, config.num_attention_heads));
}

std::int64_t key_value_heads(const LlamaConfig& config) {
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t key_value = config.num_key_value_heads.value_or(heads);
  if (key_value < 1 || heads % key_value != 0) {
    throw accelerate::ArgumentError(accelerate::str_cat(
        "`num_attention_heads` is ",
        heads,
        ", but must be a multiple of `num_key_value_heads`, which is ",
        key_value));
  }
  return key_value;
}

class LlamaAttention : public torch::nn::Module {
 public:
  explicit LlamaAttention(const LlamaConfig& config)
      : head_dim_(head_dim(config)), dropout_(config.attention_dropout) {
    const auto width = config.hidden_size;
    const auto query_width = config.num_attention_heads * head_dim_;
    const auto key_width = key_value_heads(config) * head_dim_;
    const auto linear = [&](const char* name, auto in, auto out) {
      return register_module(
          name, std::make_shared<Linear>(in, out, config.attention_bias));
    };
    q_proj_ = linear("q_proj", width, query_width);
    k_proj_ = linear("k_proj", width, key_width);
    v_proj_ = linear("v_proj", width, key_width);
    o_proj_ = linear("o_proj", query_width, width);
  }

  at::Tensor operator()(
      const at::Tensor& x_BTD, const LayerContext& context) const {
    const auto rotated = [&](const at::Tensor& projected) {
      return rotate(
          split_heads(projected, head_dim_),
          context.cos_B1TD,
          context.sin_B1TD);
    };
    return (*o_proj_)(attend(
        rotated((*q_proj_)(x_BTD)),
        rotated((*k_proj_)(x_BTD)),
        split_heads((*v_proj_)(x_BTD), head_dim_),
        context.mask,
        context.attention(
            is_training() ? dropout_ : 0.0,
            1.0 / std::sqrt(static_cast<double>(head_dim_)))));
  }

  /// The weights for queries, keys, values and the output.
  std::vector<at::Tensor> weights() const {
    return {
        q_proj_->weight_ED,
        k_proj_->weight_ED,
        v_proj_->weight_ED,
        o_proj_->weight_ED};
  }

 private:
  std::int64_t head_dim_;
  double dropout_;
  std::shared_ptr<Linear> q_proj_, k_proj_, v_proj_, o_proj_;
};

class LlamaMlp : public torch::nn::Module {
 public:
  explicit LlamaMlp(const LlamaConfig& config)
      : activation_(activation(config.hidden_act)) {
    const auto width = config.hidden_size;
    const auto inner = config.intermediate_size;
    const auto linear = [&](const char* name, auto in, auto out) {
      return register_module(
          name, std::make_shared<Linear>(in, out, config.mlp_bias));
    };
    gate_proj_ = linear("gate_proj", width, inner);
    up_proj_ = linear("up_proj", width, inner);
    down_proj_ = linear("down_proj", inner, width);
  }

  at::Tensor operator()(const at::Tensor& x_BTD) const {
    return (*down_proj_)(
        activation_((*gate_proj_)(x_BTD)) * (*up_proj_)(x_BTD));
  }

  /// The weights `gate`, `up` and `down`.
  std::vector<at::Tensor> weights() const {
    return {gate_proj_->weight_ED, up_proj_->weight_ED, down_proj_->weight_ED};
  }

 private:
  Activation activation_;
  std::shared_ptr<Linear> gate_proj_, up_proj_, down_proj_;
};

class LlamaBlock : public Block {
 public:
  explicit LlamaBlock(const LlamaConfig& config)
      : head_dim_(head_dim(config)),
        description_(
            {.norm = accelerate::NormKind::rms_norm,
             .activation = activation_kind(config.hidden_act),
             .positions = accelerate::PositionKind::rotary,
             .has_gated_mlp = true,
             .has_biases = config.attention_bias || config.mlp_bias,
             .query_heads = config.num_attention_heads,
             .key_heads = key_value_heads(config),
             .norm_eps = config.rms_norm_eps,
             .attention_scale = 1.0 / std::sqrt(static_cast<double>(head_dim_)),
             .attention_dropout = config.attention_dropout}) {
    attention_ =
        register_module("self_attn", std::make_shared<LlamaAttention>(config));
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(config));
    const auto norm = [&](const char* name) {
      return register_module(
          name,
          std::make_shared<RmsNorm>(config.hidden_size, config.rms_norm_eps));
    };
    input_norm_ = norm("input_layernorm");
    attention_norm_ = norm("post_attention_layernorm");
  }

  at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) override {
    if (runs_fused(hidden_BTD, context)) {
      return fused(hidden_BTD, context);
    }
    const auto attended_BTD =
        hidden_BTD + (*attention_)((*input_norm_)(hidden_BTD), context);
    return attended_BTD + (*mlp_)((*attention_norm_)(attended_BTD));
  }

 protected:
  BlockSupport supported_by(
      const accelerate::FusedBlocks& blocks) const override {
    return {.block = blocks.supports_decoder_block(description_, head_dim_)};
  }

 private:
  at::Tensor fused(
      const at::Tensor& hidden_BTD, const LayerContext& context) const {
    std::vector<at::Tensor> parameters = {input_norm_->weight_D};
    const auto attention = attention_->weights();
    parameters.insert(parameters.end(), attention.begin(), attention.end());
    parameters.push_back(attention_norm_->weight_D);
    const auto mlp = mlp_->weights();
    parameters.insert(parameters.end(), mlp.begin(), mlp.end());
    accelerate::DecoderBlockOptions options = description_;
    if (!is_training()) {
      options.attention_dropout = 0.0;
    }
    options.cos = context.cos_B1TD.squeeze(1);
    options.sin = context.sin_B1TD.squeeze(1);
    return context.fused->decoder_block(
        hidden_BTD, context.mask_bias, parameters, options);
  }

  std::int64_t head_dim_;
  accelerate::DecoderBlockOptions description_;
  std::shared_ptr<LlamaAttention> attention_;
  std::shared_ptr<LlamaMlp> mlp_;
  std::shared_ptr<RmsNorm> input_norm_, attention_norm_;
};

class LlamaModel : public Backbone {
 public:
  explicit LlamaModel(const LlamaConfig& typed)
      : Backbone(typed),
        config_(typed),
        rotary_(
            typed.rope_parameters,
            head_dim(typed),
            typed.max_position_embeddings) {
    // Python checks this only for Llama.
    if (!(typed.initializer_range >= 0 && typed.initializer_range <= 1)) {
      throw accelerate::ArgumentError(accelerate::str_cat(
          "`initializer_range` is ",
          typed.initializer_range,
          ", but must be between 0 and 1"));
    }
    embed_tokens_ = register_module(
        "embed_tokens",
        std::make_shared<Embedding>(
            typed.vocab_size, typed.hidden_size, typed.pad_token_id));
    layers_ = register_module(
        "layers",
        std::make_shared<BlockList>(typed.num_hidden_layers, [&](auto) {
          return std::make_shared<LlamaBlock>(typed);
        }));
    norm_ = register_module(
        "norm",
        std::make_shared<RmsNorm>(typed.hidden_size, typed.rms_norm_eps));
  }

  ModelResult compute(const ModelInputs& inputs) override {
    ModelResult result;
    auto hidden_BTD = embed(inputs);
    auto context =
        layer_context(inputs, hidden_BTD, /*is_causal=*/true, result);
    std::tie(context.cos_B1TD, context.sin_B1TD) = rotary_(
        positions(inputs),
        // The fused blocks apply rotary embeddings in fp32.
        context.fused != nullptr ? at::kFloat : hidden_BTD.scalar_type());
    hidden_BTD =
        (*norm_)(run(layers_->blocks, hidden_BTD, context, inputs, result));
    if (inputs.options.output_hidden_states) {
      result.hidden_states.push_back(hidden_BTD);
    }
    result.last_hidden_state = hidden_BTD;
    return result;
  }

  const Embedding& input_embeddings() const override { return *embed_tokens_; }
  std::int64_t width() const override { return config_.hidden_size; }
  double initializer_range() const override {
    return config_.initializer_range;
  }
  std::string base_model_prefix() const override { return "model"; }
  // Rows are padded at most to the original context length, because some RoPE
  // types change the angles of longer rows.
  Padding padding() const override {
    const auto max_positions = config_.max_position_embeddings;
    return {
        .max_tokens = std::min(
            max_positions,
            config_.rope_parameters.original_max_position_embeddings.value_or(
                max_positions)),
        .is_causal = true};
  }
  BatchLimits limits() const override {
    return {.words_VD = embed_tokens_->weight_VD};
  }

 private:
  LlamaConfig config_;
  RotaryEmbedding rotary_;
  std::shared_ptr<Embedding> embed_tokens_;
  std::shared_ptr<BlockList> layers_;
  std::shared_ptr<RmsNorm> norm_;
};

class LlamaForCausalLM : public CausalLM {
 public:
  explicit LlamaForCausalLM(const LlamaConfig& typed)
      : CausalLM(
            std::make_shared<LlamaModel>(typed),
            typed.vocab_size,
            typed.tie_word_embeddings,
            "embed_tokens") {}
};

class LlamaForSequenceClassification : public LastTokenClassifier {
 public:
  explicit LlamaForSequenceClassification(const LlamaConfig& typed)
      : LastTokenClassifier(
            std::make_shared<LlamaModel>(typed), typed.pad_token_id) {}
};

class LlamaForTokenClassification : public TokenClassifier {
 public:
  explicit LlamaForTokenClassification(const LlamaConfig& typed)
      : TokenClassifier(
            std::make_shared<LlamaModel>(typed),
            "score",
            typed.classifier_dropout.value_or(0.1)) {}
};

class LlamaForQuestionAnswering : public QuestionAnswerer {
 public:
  // Only in this class, Hugging Face Transformers calls the backbone
  // `transformer`.
  explicit LlamaForQuestionAnswering(const LlamaConfig& typed)
      : QuestionAnswerer(
            std::make_shared<Renamed>(typed), {.uses_num_labels = false}) {}

 private:
  class Renamed : public LlamaModel {
   public:
    using LlamaModel::LlamaModel;
    std::string base_model_prefix() const override { return "transformer"; }
  };
};

}  // namespace

Architecture llama() {
  using C = LlamaConfig;
  return {
      .model_type = std::string(C::model_type),
      .read_config = read_config<C>,
      .classes =
          {{Task::base, {"LlamaModel", make_model<LlamaModel, C>()}},
           {Task::causal_lm,
            {"LlamaForCausalLM", make_model<LlamaForCausalLM, C>()}},
           {Task::sequence_classification,
            {"LlamaForSequenceClassification",
             make_model<LlamaForSequenceClassification, C>()}},
           {Task::token_classification,
            {"LlamaForTokenClassification",
             make_model<LlamaForTokenClassification, C>()}},
           {Task::question_answering,
            {"LlamaForQuestionAnswering",
             make_model<LlamaForQuestionAnswering, C>()}}},
      .ignored = {".rotary_emb.inv_freq"}};
}

}  // namespace transformers
