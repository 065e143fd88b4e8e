// SPDX-License-Identifier: Apache-2.0
#include "launch/model_size.h"

#include <algorithm>
#include <map>
#include <set>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/safetensors_header.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJson = std::size_t{256} << 20;

// A config with its numbers, and a list of layers to fill.
class Architecture {
 public:
  Architecture(const Json& config, const std::string& source)
      : config_(config), source_(source) {}

  std::int64_t number(const char* key) const {
    const Json* value = config_.find(key);
    if (value == nullptr || !value->is_integer() || value->as_integer() < 0) {
      throw FormatError(
          str_cat(source_, ": `", key, "` is missing or not a whole number"));
    }
    return value->as_integer();
  }
  std::int64_t number_or(const char* key, std::int64_t fallback) const {
    const Json* value = config_.find(key);
    return value == nullptr || value->is_null() ? fallback : number(key);
  }
  bool flag(const char* key, bool fallback) const {
    const Json* value = config_.find(key);
    return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
  }

  void embedding(
      const std::string& name, std::int64_t rows, std::int64_t width) {
    layers.push_back({name, rows * width});
  }
  void linear(
      const std::string& name,
      std::int64_t in,
      std::int64_t out,
      bool bias = true) {
    layers.push_back({name, in * out + (bias ? out : 0)});
  }
  // A layer norm has two numbers for each channel, an RMS norm one.
  void norm(const std::string& name, std::int64_t width, int each = 2) {
    layers.push_back({name, width * each});
  }

  std::vector<ModelLayer> layers;

 private:
  const Json& config_;
  const std::string& source_;
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

// BertModel and RobertaModel: the same layers, other tables.
void add_bert(Architecture& model) {
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
  for (std::int64_t i = 0; i < model.number("num_hidden_layers"); ++i) {
    add_encoder_layer(
        model,
        str_cat("encoder.layer.", i),
        width,
        model.number("intermediate_size"));
  }
  model.linear("pooler", width, width);
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
  for (std::int64_t i = 0; i < model.number("n_layers"); ++i) {
    add_encoder_layer(
        model,
        str_cat("transformer.layer.", i),
        width,
        model.number("hidden_dim"));
  }
}

void add_gpt2(Architecture& model) {
  const std::int64_t width = model.number("n_embd");
  const std::int64_t inner = model.number_or("n_inner", 4 * width);
  model.embedding("wte", model.number("vocab_size"), width);
  model.embedding("wpe", model.number("n_positions"), width);
  for (std::int64_t i = 0; i < model.number("n_layer"); ++i) {
    const std::string name = str_cat("h.", i);
    model.norm(name + ".ln_1", width);
    model.linear(name + ".attn.c_attn", width, 3 * width);
    model.linear(name + ".attn.c_proj", width, width);
    model.norm(name + ".ln_2", width);
    model.linear(name + ".mlp.c_fc", width, inner);
    model.linear(name + ".mlp.c_proj", inner, width);
  }
  model.norm("ln_f", width);
}

// Llama, Mistral and Qwen2, as causal language models.
void add_llama(Architecture& model, bool attention_bias) {
  const std::int64_t width = model.number("hidden_size");
  const std::int64_t heads = model.number("num_attention_heads");
  const std::int64_t key_heads = model.number_or("num_key_value_heads", heads);
  const std::int64_t head =
      model.number_or("head_dim", heads == 0 ? 0 : width / heads);
  const std::int64_t inner = model.number("intermediate_size");
  const bool bias = model.flag("attention_bias", attention_bias);
  model.embedding("embed_tokens", model.number("vocab_size"), width);
  for (std::int64_t i = 0; i < model.number("num_hidden_layers"); ++i) {
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
  if (!model.flag("tie_word_embeddings", false)) {
    model.linear("lm_head", width, model.number("vocab_size"), false);
  }
}

using Builder = void (*)(Architecture&);
const std::map<std::string, Builder>& builders() {
  static const std::map<std::string, Builder> all = {
      {"bert", add_bert},
      {"roberta", add_bert},
      {"distilbert", add_distilbert},
      {"gpt2", add_gpt2},
      {"llama", [](Architecture& model) { add_llama(model, false); }},
      {"mistral", [](Architecture& model) { add_llama(model, false); }},
      {"qwen2", [](Architecture& model) { add_llama(model, true); }},
  };
  return all;
}

// "layer.weight" and "layer.bias" belong to "layer".
void add_tensors(
    const fs::path& path, std::map<std::string, std::int64_t>& sizes) {
  for (const SafetensorsEntry& tensor : read_safetensors_header(path).tensors) {
    sizes[tensor.name.substr(0, tensor.name.rfind('.'))] += tensor.elements();
  }
}

ModelSize size_from_safetensors(const std::set<fs::path>& files) {
  std::map<std::string, std::int64_t> sizes;
  for (const fs::path& file : files) {
    add_tensors(file, sizes);
  }
  ModelSize result;
  result.source = files.begin()->string();
  for (const auto& [name, count] : sizes) {
    result.layers.push_back({name, count});
  }
  return result;
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
            ": no rule for model_type `",
            printable(name),
            "`; there is one for ",
            join(known, ", ")),
        "give a folder with safetensors files, which hold every shape");
  }
  Architecture model(config, source);
  found->second(model);
  return {source, std::move(model.layers)};
}

ModelSize read_model_size(const fs::path& path) {
  if (!fs::exists(path)) {
    throw ConfigError(
        str_cat(path.string(), " does not exist"),
        "give a model's folder, its config.json or a safetensors file");
  }
  std::set<fs::path> files;
  if (path.extension() == ".safetensors") {
    files.insert(path);
  } else if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() == ".safetensors") {
        files.insert(entry.path());
      }
    }
  }
  ModelSize result;
  if (!files.empty()) {
    result = size_from_safetensors(files);
  } else {
    const fs::path config =
        fs::is_directory(path) ? path / "config.json" : path;
    result = size_from_config(
        Json::parse(read_file(config, kMaxJson), {.source = config.string()}),
        config.string());
  }
  if (result.layers.empty()) {
    throw FormatError(str_cat(path.string(), " holds no parameters"));
  }
  return result;
}

TrainingBytes training_bytes(
    std::int64_t parameters, int zero_stage, std::int64_t processes) {
  const double whole = 4.0 * static_cast<double>(parameters);
  const double share = whole / static_cast<double>(processes);
  TrainingBytes bytes;
  bytes.weights = zero_stage >= 3 ? share : whole;
  bytes.gradients = zero_stage >= 2 ? share : whole;
  // Adam keeps two numbers for each parameter.
  bytes.optimizer = 2 * (zero_stage >= 1 ? share : whole);
  return bytes;
}

}  // namespace accelerate
