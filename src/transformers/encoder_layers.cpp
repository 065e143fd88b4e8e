// SPDX-License-Identifier: Apache-2.0
#include "transformers/encoder_layers.h"

#include <cmath>

#include <torch/types.h>

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

 private:
  std::int64_t head_dim_;
  double dropout_;
  std::shared_ptr<Linear> query_, key_, value_;
};

// A projection back to the model's width, added to what was there.
class Output : public torch::nn::Module {
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

 private:
  double dropout_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
};

// A group of modules under one name.
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

 private:
  Activation activation_;
  std::shared_ptr<Linear> dense_;
};

class EncoderLayer : public Block {
 public:
  explicit EncoderLayer(const EncoderConfig& config) {
    attention_ =
        register_module("attention", std::make_shared<Attention>(config));
    intermediate_ =
        register_module("intermediate", std::make_shared<Intermediate>(config));
    output_ = register_module(
        "output", std::make_shared<Output>(config, config.intermediate_size));
  }

  at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) override {
    const auto attended_BTD = (*attention_->output)(
        (*attention_->self)(hidden_BTD, context), hidden_BTD);
    return (*output_)((*intermediate_)(attended_BTD), attended_BTD);
  }

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Intermediate> intermediate_;
  std::shared_ptr<Output> output_;
};

}  // namespace

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
  return (*dense_)(hidden_BTD.select(1, 0)).tanh();
}

}  // namespace transformers
