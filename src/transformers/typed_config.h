// SPDX-License-Identifier: Apache-2.0
// Type-erased configs. Does not depend on LibTorch.
//
// The config struct of an architecture needs a `model_type`, a member `common`,
// and a `visit_fields` function like the functions below.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "transformers/config_fields.h"
#include "transformers/configuration.h"

namespace transformers {

/// The interface to the config struct that a `Config` holds.
class ConfigValue {
 public:
  virtual ~ConfigValue() = default;
  virtual std::string_view model_type() const = 0;
  virtual PretrainedConfig& common() = 0;
  virtual accelerate::Json to_json() const = 0;
  virtual std::unique_ptr<ConfigValue> clone() const = 0;
  /// Throws `ArgumentError` if a field has an invalid value.
  virtual void check() const = 0;
  virtual const std::type_info& type() const = 0;
  virtual void* typed() = 0;
};

template <typename Typed>
class TypedConfig : public ConfigValue {
 public:
  explicit TypedConfig(Typed value) : fields(std::move(value)) {}

  std::string_view model_type() const override { return Typed::model_type; }
  PretrainedConfig& common() override { return fields.common; }
  accelerate::Json to_json() const override {
    FieldWriter writer;
    writer("model_type", std::string(Typed::model_type));
    visit_fields(fields, writer);
    write_common(writer, fields.common);
    return writer.json();
  }
  std::unique_ptr<ConfigValue> clone() const override {
    return std::make_unique<TypedConfig>(fields);
  }
  void check() const override {
    FieldChecker checker;
    visit_fields(fields, checker);
  }
  const std::type_info& type() const override { return typeid(Typed); }
  void* typed() override { return &fields; }

  Typed fields;
};

template <typename Typed>
std::unique_ptr<ConfigValue> read_config(
    const accelerate::Json& json, const std::string& source) {
  FieldReader reader(json, source);
  reader.take("model_type");
  Typed fields;
  visit_fields(fields, reader);
  read_common(reader, fields.common);
  return std::make_unique<TypedConfig<Typed>>(std::move(fields));
}

/// The config fields that BERT and RoBERTa share.
template <typename Bert, typename Visitor>
  requires requires(Bert& config) { config.type_vocab_size; }
void visit_fields(Bert& config, Visitor& visit) {
  visit("vocab_size", config.vocab_size);
  visit("hidden_size", config.hidden_size);
  visit("num_hidden_layers", config.num_hidden_layers);
  visit("num_attention_heads", config.num_attention_heads);
  visit("intermediate_size", config.intermediate_size);
  visit("hidden_act", config.hidden_act);
  visit("hidden_dropout_prob", config.hidden_dropout_prob);
  visit("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  visit("max_position_embeddings", config.max_position_embeddings);
  visit("type_vocab_size", config.type_vocab_size);
  visit("initializer_range", config.initializer_range);
  visit("layer_norm_eps", config.layer_norm_eps);
  visit("pad_token_id", config.pad_token_id);
  visit("classifier_dropout", config.classifier_dropout);
  visit("is_decoder", config.is_decoder);
  visit("tie_word_embeddings", config.tie_word_embeddings);
}

template <typename DistilBert, typename Visitor>
  requires requires(DistilBert& config) { config.sinusoidal_pos_embds; }
void visit_fields(DistilBert& config, Visitor& visit) {
  visit("vocab_size", config.vocab_size);
  visit("max_position_embeddings", config.max_position_embeddings);
  visit("sinusoidal_pos_embds", config.sinusoidal_pos_embds);
  visit("n_layers", config.n_layers, {"num_hidden_layers"});
  visit("n_heads", config.n_heads, {"num_attention_heads"});
  visit("dim", config.dim, {"hidden_size"});
  visit("hidden_dim", config.hidden_dim);
  visit("dropout", config.dropout);
  visit("attention_dropout", config.attention_dropout);
  visit("activation", config.activation);
  visit("initializer_range", config.initializer_range);
  visit("qa_dropout", config.qa_dropout);
  visit("seq_classif_dropout", config.seq_classif_dropout);
  visit("pad_token_id", config.pad_token_id);
  visit("tie_word_embeddings", config.tie_word_embeddings);
}

template <typename Gpt2, typename Visitor>
  requires requires(Gpt2& config) { config.n_positions; }
void visit_fields(Gpt2& config, Visitor& visit) {
  visit("vocab_size", config.vocab_size);
  visit("n_positions", config.n_positions, {"max_position_embeddings"});
  visit("n_embd", config.n_embd, {"hidden_size"});
  visit("n_layer", config.n_layer, {"num_hidden_layers"});
  visit("n_head", config.n_head, {"num_attention_heads"});
  visit("n_inner", config.n_inner);
  visit("activation_function", config.activation_function);
  visit("resid_pdrop", config.resid_pdrop);
  visit("embd_pdrop", config.embd_pdrop);
  visit("attn_pdrop", config.attn_pdrop);
  visit("layer_norm_epsilon", config.layer_norm_epsilon);
  visit("initializer_range", config.initializer_range);
  visit("scale_attn_weights", config.scale_attn_weights);
  visit(
      "scale_attn_by_inverse_layer_idx",
      config.scale_attn_by_inverse_layer_idx);
  visit("pad_token_id", config.pad_token_id);
  visit("classifier_dropout", config.classifier_dropout);
  visit("tie_word_embeddings", config.tie_word_embeddings);
}

inline void visit_rope(LlamaConfig& config, FieldReader& reader) {
  read_fields(reader, config.rope_parameters);
}
inline void visit_rope(const LlamaConfig& config, FieldWriter& writer) {
  writer("rope_parameters", to_json(config.rope_parameters));
}

inline void visit_rope(const LlamaConfig&, FieldChecker&) {
  // `RotaryEmbedding` checks these fields.
}

template <typename Llama, typename Visitor>
  requires requires(Llama& config) { config.rope_parameters; }
void visit_fields(Llama& config, Visitor& visit) {
  visit("vocab_size", config.vocab_size);
  visit("hidden_size", config.hidden_size);
  visit("intermediate_size", config.intermediate_size);
  visit("num_hidden_layers", config.num_hidden_layers);
  visit("num_attention_heads", config.num_attention_heads);
  visit("num_key_value_heads", config.num_key_value_heads);
  visit("hidden_act", config.hidden_act);
  visit("max_position_embeddings", config.max_position_embeddings);
  visit("initializer_range", config.initializer_range);
  visit("rms_norm_eps", config.rms_norm_eps);
  visit("pad_token_id", config.pad_token_id);
  visit("tie_word_embeddings", config.tie_word_embeddings);
  visit_rope(config, visit);
  visit("attention_bias", config.attention_bias);
  visit("attention_dropout", config.attention_dropout);
  visit("mlp_bias", config.mlp_bias);
  visit("head_dim", config.head_dim);
  visit("classifier_dropout", config.classifier_dropout);
}

}  // namespace transformers
