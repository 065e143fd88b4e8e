// SPDX-License-Identifier: Apache-2.0
#include "transformers/encoder_layers.h"

#include <cmath>

#include <torch/types.h>

#include "transformers/fused.h"

namespace transformers {
namespace {

class SelfAttention : public torch::nn::Module {
 public:
  explicit SelfAttention(const EncoderConfig& config)
      : head_dim_(
            width_of_head(config.hidden_size, config.num_attention_heads)),
        dropout_(config.attention_dropout) {
    const auto width = config.hidden_size;
    query_ = register_module("query", std::make_shared<Linear>(width, width));
    key_ = register_module("key", std::make_shared<Linear>(width, width));
    value_ = register_module("value", std::make_shared<Linear>(width, width));
  }

  at::Tensor operator()(
      const at::Tensor& x_BTD, const LayerContext& context) const {
    return attend(
        split_heads((*query_)(x_BTD), head_dim_),
        split_heads((*key_)(x_BTD), head_dim_),
        split_heads((*value_)(x_BTD), head_dim_),
        context.mask,
        context.attention(
            is_training() ? dropout_ : 0.0,
            1.0 / std::sqrt(static_cast<double>(head_dim_))));
  }

  std::shared_ptr<Linear> query() const { return query_; }
  std::shared_ptr<Linear> key() const { return key_; }
  std::shared_ptr<Linear> value() const { return value_; }

 private:
  std::int64_t head_dim_;
  double dropout_;
  std::shared_ptr<Linear> query_, key_, value_;
};

// A projection back to the model's width, added to the residual.
class Output : public Layer {
 public:
  Output(const EncoderConfig& config, std::int64_t in)
      : dropout_(config.hidden_dropout) {
    dense_ = register_module(
        "dense", std::make_shared<Linear>(in, config.hidden_size));
    norm_ = register_module(
        "LayerNorm",
        std::make_shared<LayerNorm>(config.hidden_size, config.layer_norm_eps));
  }

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual) const {
    return (*norm_)(dropout((*dense_)(x), dropout_, *this) + residual);
  }

  const Linear& dense() const { return *dense_; }
  const LayerNorm& norm() const { return *norm_; }

 private:
  double dropout_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
};

// Groups `self` and `output` under one module name, as in Hugging Face
// Transformers.
class Attention : public torch::nn::Module {
 public:
  explicit Attention(const EncoderConfig& config) {
    self = register_module("self", std::make_shared<SelfAttention>(config));
    output = register_module(
        "output", std::make_shared<Output>(config, config.hidden_size));
  }
  std::shared_ptr<SelfAttention> self;
  std::shared_ptr<Output> output;
};

class Intermediate : public torch::nn::Module {
 public:
  explicit Intermediate(const EncoderConfig& config)
      : activation_(activation(config.hidden_act)) {
    dense_ = register_module(
        "dense",
        std::make_shared<Linear>(config.hidden_size, config.intermediate_size));
  }
  at::Tensor operator()(const at::Tensor& x_BTD) const {
    return activation_((*dense_)(x_BTD));
  }

  const Linear& dense() const { return *dense_; }

 private:
  Activation activation_;
  std::shared_ptr<Linear> dense_;
};

class EncoderLayer : public Block {
 public:
  explicit EncoderLayer(const EncoderConfig& config)
      : head_dim_(
            width_of_head(config.hidden_size, config.num_attention_heads)),
        description_(
            {.activation = activation_kind(config.hidden_act),
             .heads = config.num_attention_heads,
             .layer_norm_eps = config.layer_norm_eps,
             .attention_dropout = config.attention_dropout,
             .hidden_dropout = config.hidden_dropout}) {
    attention_ =
        register_module("attention", std::make_shared<Attention>(config));
    intermediate_ =
        register_module("intermediate", std::make_shared<Intermediate>(config));
    output_ = register_module(
        "output", std::make_shared<Output>(config, config.intermediate_size));
  }

  at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) override {
    if (runs_fused(hidden_BTD, context) && !context.mask.is_causal) {
      return context.fused->encoder_block(
          hidden_BTD,
          context.mask_bias,
          fused_parameters(),
          call_options(description_, context, is_training()));
    }
    const auto attended_BTD = (*attention_->output)(
        (*attention_->self)(hidden_BTD, context), hidden_BTD);
    return (*output_)((*intermediate_)(attended_BTD), attended_BTD);
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
    const auto& self = *attention_->self;
    std::vector<at::Tensor> all;
    const auto add = [&](const at::Tensor& weight, const at::Tensor& bias) {
      all.push_back(weight);
      all.push_back(bias);
    };
    for (const auto& part : {self.query(), self.key(), self.value()}) {
      add(part->weight_ED, part->bias_E);
    }
    const auto& out = *attention_->output;
    add(out.dense().weight_ED, out.dense().bias_E);
    add(out.norm().weight_D, out.norm().bias_D);
    add(intermediate_->dense().weight_ED, intermediate_->dense().bias_E);
    add(output_->dense().weight_ED, output_->dense().bias_E);
    add(output_->norm().weight_D, output_->norm().bias_D);
    return all;
  }

  std::int64_t head_dim_;
  accelerate::EncoderBlockOptions description_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Intermediate> intermediate_;
  std::shared_ptr<Output> output_;
};

}  // namespace

accelerate::EncoderBlockOptions call_options(
    const accelerate::EncoderBlockOptions& description,
    const LayerContext& context,
    bool is_training) {
  accelerate::EncoderBlockOptions options = description;
  if (!is_training) {
    options.attention_dropout = 0.0;
    options.hidden_dropout = 0.0;
  }
  options.sequence_offsets = context.sequence_offsets;
  return options;
}

Encoder::Encoder(const EncoderConfig& config) {
  layer_ = register_module(
      "layer",
      std::make_shared<BlockList>(config.num_hidden_layers, [&](std::int64_t) {
        return std::make_shared<EncoderLayer>(config);
      }));
}

Pooler::Pooler(std::int64_t width) {
  dense_ = register_module("dense", std::make_shared<Linear>(width, width));
}

at::Tensor Pooler::operator()(const at::Tensor& hidden_BTD) const {
  return apply_linear(*dense_, hidden_BTD.select(1, 0)).tanh();
}

BertBackbone::BertBackbone(
    Config config_value, const EncoderConfig& fields, const Options& options)
    : Backbone(std::move(config_value)), config_(fields), options_(options) {
  refuse_extra(config.common(), "position_embedding_type", "absolute");
  refuse_extra(config.common(), "add_cross_attention", false);
  embeddings_ = register_module(
      "embeddings",
      std::make_shared<SummedEmbeddings>(SummedEmbeddings::Options{
          .width = fields.hidden_size,
          .words = fields.vocab_size,
          .positions = fields.max_position_embeddings,
          .types = fields.type_vocab_size,
          .padding_id = fields.pad_token_id,
          .skips_padding = options.skips_padding,
          .norm_eps = fields.layer_norm_eps,
          .dropout = fields.hidden_dropout}));
  encoder_ = register_module("encoder", std::make_shared<Encoder>(fields));
  if (options.with_pooler) {
    pooler_ =
        register_module("pooler", std::make_shared<Pooler>(fields.hidden_size));
  }
}

ModelResult BertBackbone::compute(const ModelInputs& inputs) {
  ModelResult result;
  auto hidden_BTD = (*embeddings_)(inputs);
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

std::int64_t BertBackbone::first_position() const {
  return options_.skips_padding ? config_.pad_token_id.value_or(0) + 1 : 0;
}

Padding BertBackbone::padding() const {
  return {
      config_.max_position_embeddings - first_position(),
      config_.pad_token_id.value_or(0)};
}

BatchLimits BertBackbone::limits() const {
  BatchLimits limits = {
      .words_VD = embeddings_->words->weight_VD,
      .positions = config_.max_position_embeddings - first_position(),
      .first_position = first_position(),
      .types = config_.type_vocab_size};
  if (options_.skips_padding) {
    limits.skipped_id = config_.pad_token_id.value_or(0);
  }
  return limits;
}

}  // namespace transformers
