// SPDX-License-Identifier: Apache-2.0
#include "launch/model_size.h"

#include <algorithm>
#include <map>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

// Larger than in any real model, so a larger number is an error in the config.
constexpr std::int64_t kMaxNumber = 100'000'000;
constexpr std::int64_t kMaxLayers = 65536;
constexpr std::int64_t kDefaultLabels = 2;

// Reads the numbers from a config and collects the layers of the model.
class Architecture {
 public:
  Architecture(const Json& config, const std::string& source)
      : config_(config), source_(source) {}

  std::int64_t number(
      const char* key, std::int64_t maximum = kMaxNumber) const {
    const Json* value = config_.find(key);
    if (value == nullptr) {
      throw FormatError(str_cat(source_, ": `", key, "` is missing"));
    }
    if (!value->is_integer() || value->as_integer() < 0 ||
        value->as_integer() > maximum) {
      throw FormatError(str_cat(
          source_,
          ": `",
          key,
          "` is ",
          printable(value->dump()),
          ", not a whole number from 0 to ",
          maximum));
    }
    return value->as_integer();
  }
  std::int64_t layer_count(const char* key) const {
    return number(key, kMaxLayers);
  }
  std::int64_t number_or(const char* key, std::int64_t fallback) const {
    const Json* value = config_.find(key);
    return value == nullptr || value->is_null() ? fallback : number(key);
  }
  bool flag(const char* key, bool fallback) const {
    const Json* value = config_.find(key);
    return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
  }

  /// The first entry of `architectures`; empty if there is none.
  std::string class_name() const {
    const Json* names = config_.find("architectures");
    const bool has_name = names != nullptr && names->is_array() &&
                          !names->as_array().empty() &&
                          names->as_array().front().is_string();
    return has_name ? names->as_array().front().as_string() : "";
  }
  std::int64_t num_labels() const {
    const Json* labels = config_.find("id2label");
    return labels != nullptr && labels->is_object()
               ? static_cast<std::int64_t>(labels->as_object().size())
               : number_or("num_labels", kDefaultLabels);
  }
  [[noreturn]] void refuse_class() const {
    throw UnsupportedError(
        str_cat(
            source_,
            ": the class `",
            printable(class_name()),
            "` in `architectures` is not supported"),
        "pass a folder with safetensors files, which list all shapes");
  }

  void embedding(
      const std::string& name, std::int64_t rows, std::int64_t width) {
    add(name, rows, width, 0);
  }
  void linear(
      const std::string& name,
      std::int64_t in,
      std::int64_t out,
      bool bias = true) {
    add(name, in, out, bias ? out : 0);
  }
  // A layer norm has two values per channel, an RMS norm has one.
  void norm(
      const std::string& name, std::int64_t width, int values_per_channel = 2) {
    add(name, width, values_per_channel, 0);
  }

  std::vector<ModelLayer> layers;

 private:
  void add(
      const std::string& name,
      std::int64_t rows,
      std::int64_t columns,
      std::int64_t bias) {
    std::int64_t count = 0;
    if (__builtin_mul_overflow(rows, columns, &count) ||
        __builtin_add_overflow(count, bias, &count) ||
        __builtin_add_overflow(total_, count, &total_)) {
      throw FormatError(str_cat(
          source_,
          ": `",
          name,
          "` would have ",
          rows,
          " × ",
          columns,
          " parameters, which is too many to count"));
    }
    layers.push_back({name, count});
  }

  const Json& config_;
  const std::string& source_;
  std::int64_t total_ = 0;
};

void add_encoder_layer(
    Architecture& model,
    const std::string& name,
    std::int64_t width,
    std::int64_t inner) {
  for (const char* part : {"query", "key", "value", "output"}) {
    model.linear(str_cat(name, ".attention.", part), width, width);
  }
  model.norm(name + ".attention.norm", width);
  model.linear(name + ".intermediate", width, inner);
  model.linear(name + ".output", inner, width);
  model.norm(name + ".norm", width);
}

// A head of an encoder, and whether it uses the pooler of the body.
struct Head {
  const char* name;
  bool has_pooler;
};
constexpr Head kHeads[] = {
    {"Model", true},
    {"ForSequenceClassification", true},
    {"ForMultipleChoice", true},
    {"ForPreTraining", true},
    {"ForMaskedLM", false},
    {"LMHeadModel", false},
    {"ForCausalLM", false},
    {"ForTokenClassification", false},
    {"ForQuestionAnswering", false}};

// Adds the layers that follow the body of a masked language model. The output
// matrix is the embedding unless `tie_word_embeddings` is false.
void add_language_head(
    Architecture& model, std::int64_t width, bool has_decoder_bias) {
  const std::int64_t vocabulary = model.number("vocab_size");
  model.linear("lm_head.transform", width, width);
  model.norm("lm_head.norm", width);
  model.embedding("lm_head.bias", vocabulary, 1);
  if (!model.flag("tie_word_embeddings", true)) {
    model.linear("lm_head.decoder", width, vocabulary, has_decoder_bias);
  }
}

// The class `BertForMaskedLM` has the head `ForMaskedLM`. Without a class, the
// config describes the body.
const Head& head_of(const Architecture& model, const std::string& prefix) {
  const std::string name = model.class_name();
  for (const Head& head : kHeads) {
    if (name == prefix + head.name || (name.empty() && &head == kHeads)) {
      return head;
    }
  }
  model.refuse_class();
}

void add_encoder_head(
    Architecture& model, const std::string& prefix, std::int64_t width) {
  const Head& chosen = head_of(model, prefix);
  const std::string head = chosen.name;
  const bool is_classification = head == "ForSequenceClassification";
  const bool has_dense = prefix != "Bert";
  if (prefix == "DistilBert") {
    if (is_classification || head == "ForMultipleChoice") {
      model.linear("pre_classifier", width, width);
    }
  } else if (chosen.has_pooler && !(is_classification && has_dense)) {
    model.linear("pooler", width, width);
  } else if (is_classification) {
    model.linear("classifier.dense", width, width);
  }
  if (is_classification || head == "ForTokenClassification") {
    model.linear("classifier", width, model.num_labels());
  } else if (head == "ForMultipleChoice") {
    model.linear("classifier", width, 1);
  } else if (head == "ForQuestionAnswering") {
    model.linear("qa_outputs", width, 2);
  } else if (head != "Model") {
    add_language_head(model, width, prefix != "DistilBert");
  }
  if (head == "ForPreTraining") {
    model.linear("seq_relationship", width, 2);
  }
}

// BertModel and RobertaModel have the same layers.
void add_bert(Architecture& model, const std::string& prefix) {
  const std::int64_t width = model.number("hidden_size");
  model.embedding(
      "embeddings.word_embeddings", model.number("vocab_size"), width);
  model.embedding(
      "embeddings.position_embeddings",
      model.number("max_position_embeddings"),
      width);
  model.embedding(
      "embeddings.token_type_embeddings",
      model.number_or("type_vocab_size", 2),
      width);
  model.norm("embeddings.norm", width);
  for (std::int64_t i = 0; i < model.layer_count("num_hidden_layers"); ++i) {
    add_encoder_layer(
        model,
        str_cat("encoder.layer.", i),
        width,
        model.number("intermediate_size"));
  }
  add_encoder_head(model, prefix, width);
}

void add_distilbert(Architecture& model) {
  const std::int64_t width = model.number("dim");
  model.embedding(
      "embeddings.word_embeddings", model.number("vocab_size"), width);
  model.embedding(
      "embeddings.position_embeddings",
      model.number("max_position_embeddings"),
      width);
  model.norm("embeddings.norm", width);
  for (std::int64_t i = 0; i < model.layer_count("n_layers"); ++i) {
    add_encoder_layer(
        model,
        str_cat("transformer.layer.", i),
        width,
        model.number("hidden_dim"));
  }
  add_encoder_head(model, "DistilBert", width);
}

// Adds the layers that follow the body of a decoder. If `is_tied` is true and
// the config does not override it, the output matrix is the embedding.
// `fallback` is the class that is used if the config contains no class.
void add_decoder_head(
    Architecture& model,
    const std::string& prefix,
    const std::string& fallback,
    std::int64_t width,
    bool is_tied) {
  const std::string name =
      model.class_name().empty() ? fallback : model.class_name();
  if (name == prefix + "ForCausalLM" || name == prefix + "LMHeadModel") {
    if (!model.flag("tie_word_embeddings", is_tied)) {
      model.linear("lm_head", width, model.number("vocab_size"), false);
    }
  } else if (name == prefix + "ForSequenceClassification") {
    model.linear("score", width, model.num_labels(), false);
  } else if (name == prefix + "ForTokenClassification") {
    model.linear("score", width, model.num_labels());
  } else if (name == prefix + "ForQuestionAnswering") {
    model.linear("qa_outputs", width, 2);
  } else if (name != prefix + "Model") {
    model.refuse_class();
  }
}

void add_gpt2(Architecture& model) {
  const std::int64_t width = model.number("n_embd");
  const std::int64_t inner = model.number_or("n_inner", 4 * width);
  model.embedding("wte", model.number("vocab_size"), width);
  model.embedding("wpe", model.number("n_positions"), width);
  for (std::int64_t i = 0; i < model.layer_count("n_layer"); ++i) {
    const std::string name = str_cat("h.", i);
    model.norm(name + ".ln_1", width);
    model.linear(name + ".attn.c_attn", width, 3 * width);
    model.linear(name + ".attn.c_proj", width, width);
    model.norm(name + ".ln_2", width);
    model.linear(name + ".mlp.c_fc", width, inner);
    model.linear(name + ".mlp.c_proj", inner, width);
  }
  model.norm("ln_f", width);
  add_decoder_head(model, "GPT2", "GPT2Model", width, true);
}

// Llama, Mistral and Qwen2, as causal language models.
void add_llama(
    Architecture& model, const std::string& prefix, bool attention_bias) {
  const std::int64_t width = model.number("hidden_size");
  const std::int64_t heads = model.number("num_attention_heads");
  const std::int64_t key_heads = model.number_or("num_key_value_heads", heads);
  const std::int64_t head =
      model.number_or("head_dim", heads == 0 ? 0 : width / heads);
  const std::int64_t inner = model.number("intermediate_size");
  const bool bias = model.flag("attention_bias", attention_bias);
  model.embedding("embed_tokens", model.number("vocab_size"), width);
  for (std::int64_t i = 0; i < model.layer_count("num_hidden_layers"); ++i) {
    const std::string name = str_cat("layers.", i);
    model.norm(name + ".input_layernorm", width, 1);
    model.linear(name + ".self_attn.q_proj", width, heads * head, bias);
    model.linear(name + ".self_attn.k_proj", width, key_heads * head, bias);
    model.linear(name + ".self_attn.v_proj", width, key_heads * head, bias);
    model.linear(name + ".self_attn.o_proj", heads * head, width, false);
    model.norm(name + ".post_attention_layernorm", width, 1);
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      model.linear(str_cat(name, ".mlp.", part), width, inner, false);
    }
  }
  model.norm("norm", width, 1);
  add_decoder_head(model, prefix, prefix + "ForCausalLM", width, false);
}

using Builder = void (*)(Architecture&);
const std::map<std::string, Builder>& builders() {
  static const std::map<std::string, Builder> all = {
      {"bert", [](Architecture& model) { add_bert(model, "Bert"); }},
      {"roberta", [](Architecture& model) { add_bert(model, "Roberta"); }},
      {"distilbert", add_distilbert},
      {"gpt2", add_gpt2},
      {"llama", [](Architecture& model) { add_llama(model, "Llama", false); }},
      {"mistral",
       [](Architecture& model) { add_llama(model, "Mistral", false); }},
      {"qwen2", [](Architecture& model) { add_llama(model, "Qwen2", true); }},
  };
  return all;
}

}  // namespace

std::int64_t ModelSize::parameters() const {
  std::int64_t sum = 0;
  for (const ModelLayer& layer : layers) {
    sum += layer.parameters;
  }
  return sum;
}

const ModelLayer& ModelSize::largest() const {
  return *std::max_element(
      layers.begin(), layers.end(), [](const auto& a, const auto& b) {
        return a.parameters < b.parameters;
      });
}

ModelSize size_from_config(const Json& config, const std::string& source) {
  const Json* type = config.find("model_type");
  const std::string name =
      type != nullptr && type->is_string() ? type->as_string() : "";
  const auto found = builders().find(name);
  if (found == builders().end()) {
    std::vector<std::string> known;
    for (const auto& [key, builder] : builders()) {
      known.push_back(key);
    }
    throw UnsupportedError(
        str_cat(
            source,
            ": model_type `",
            printable(name),
            "` is not supported; supported types: ",
            join(known, ", ")),
        "pass a folder with safetensors files, which list all shapes");
  }
  Architecture model(config, source);
  found->second(model);
  return {source, std::move(model.layers)};
}

TrainingBytes training_bytes(
    std::int64_t parameters,
    double value_bytes,
    int zero_stage,
    std::int64_t processes) {
  const double full = value_bytes * static_cast<double>(parameters);
  const double shard = full / static_cast<double>(processes);
  TrainingBytes bytes;
  bytes.weights = zero_stage >= 3 ? shard : full;
  bytes.gradients = zero_stage >= 2 ? shard : full;
  // Adam keeps two values per parameter.
  bytes.optimizer = 2 * (zero_stage >= 1 ? shard : full);
  return bytes;
}

}  // namespace accelerate
