// SPDX-License-Identifier: Apache-2.0
// The encoder that BERT and RoBERTa share.
//
// Shapes: B batch, T tokens, D width, I inner width, H heads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transformers/activations.h"
#include "transformers/model_module.h"

namespace transformers {

/// The fields of `BertConfig` and `RobertaConfig` that the encoder needs.
struct EncoderConfig {
  template <typename Bert>
  explicit EncoderConfig(const Bert& config)
      : hidden_size(config.hidden_size),
        num_hidden_layers(config.num_hidden_layers),
        num_attention_heads(config.num_attention_heads),
        intermediate_size(config.intermediate_size),
        hidden_act(config.hidden_act),
        hidden_dropout(config.hidden_dropout_prob),
        attention_dropout(config.attention_probs_dropout_prob),
        layer_norm_eps(config.layer_norm_eps) {}

  std::int64_t hidden_size;
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;
  std::int64_t intermediate_size;
  std::string hidden_act;
  double hidden_dropout;
  double attention_dropout;
  double layer_norm_eps;
};

/// Returns the options for one call of a fused encoder block. `description` has
/// the dropout rates for training.
accelerate::EncoderBlockOptions call_options(
    const accelerate::EncoderBlockOptions& description,
    const LayerContext& context,
    bool is_training);

/// The module `encoder`, which contains the blocks `layer.0`, `layer.1`, …
class Encoder : public torch::nn::Module {
 public:
  explicit Encoder(const EncoderConfig& config);
  const std::vector<std::shared_ptr<Block>>& blocks() const {
    return layer_->blocks;
  }
  bool can_unpad() const { return layer_->can_unpad(); }

 private:
  std::shared_ptr<BlockList> layer_;
};

/// Computes tanh(W x + b), where x is the hidden state of a row's first token.
class Pooler : public torch::nn::Module {
 public:
  explicit Pooler(std::int64_t width);
  at::Tensor operator()(const at::Tensor& hidden_BTD) const;

 private:
  std::shared_ptr<Linear> dense_;
};

}  // namespace transformers
