// SPDX-License-Identifier: Apache-2.0
// The encoder of BERT and RoBERTa, and the parts of it that DistilBERT also
// uses.
//
// Shapes: B batch, T tokens, D width, I inner width, H heads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transformers/activations.h"
#include "transformers/model_module.h"
#include "transformers/summed_embeddings.h"

namespace transformers {

/// The fields that `BertConfig` and `RobertaConfig` have in common.
struct EncoderConfig {
  template <typename Bert>
  explicit EncoderConfig(const Bert& config)
      : vocab_size(config.vocab_size),
        hidden_size(config.hidden_size),
        num_hidden_layers(config.num_hidden_layers),
        num_attention_heads(config.num_attention_heads),
        intermediate_size(config.intermediate_size),
        max_position_embeddings(config.max_position_embeddings),
        type_vocab_size(config.type_vocab_size),
        hidden_act(config.hidden_act),
        hidden_dropout(config.hidden_dropout_prob),
        attention_dropout(config.attention_probs_dropout_prob),
        initializer_range(config.initializer_range),
        layer_norm_eps(config.layer_norm_eps),
        pad_token_id(config.pad_token_id),
        is_decoder(config.is_decoder) {}

  std::int64_t vocab_size;
  std::int64_t hidden_size;
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;
  std::int64_t intermediate_size;
  std::int64_t max_position_embeddings;
  std::int64_t type_vocab_size;
  std::string hidden_act;
  double hidden_dropout;
  double attention_dropout;
  double initializer_range;
  double layer_norm_eps;
  std::optional<std::int64_t> pad_token_id;
  bool is_decoder;
};

/// Returns the options for one call of a fused encoder block: `description`
/// with the sequence offsets of `context`, and without dropout unless
/// `is_training` is true.
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

/// The model without a head.
class BertBackbone : public Backbone {
 public:
  struct Options {
    std::string prefix;
    bool with_pooler = true;
    /// See `SummedEmbeddings::Options`.
    bool skips_padding = false;
  };
  template <typename Bert>
  BertBackbone(const Bert& typed, const Options& options)
      : BertBackbone(Config(typed), EncoderConfig(typed), options) {}

  ModelResult compute(const ModelInputs& inputs) override;
  const Embedding& input_embeddings() const override {
    return *embeddings_->words;
  }
  std::int64_t width() const override { return config_.hidden_size; }
  double initializer_range() const override {
    return config_.initializer_range;
  }
  std::string base_model_prefix() const override { return options_.prefix; }
  Padding padding() const override;
  BatchLimits limits() const override;
  bool can_unpad() const override {
    return !config_.is_decoder && encoder_->can_unpad();
  }

 private:
  BertBackbone(
      Config config, const EncoderConfig& fields, const Options& options);
  // Returns the position id of the first token: 0, or `pad_token_id + 1` for
  // models that, like RoBERTa, do not use the position ids up to and including
  // `pad_token_id`.
  std::int64_t first_position() const;

  EncoderConfig config_;
  Options options_;
  std::shared_ptr<SummedEmbeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Pooler> pooler_;
};

}  // namespace transformers
