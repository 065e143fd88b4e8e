// SPDX-License-Identifier: Apache-2.0
#include "transformers/configuration.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/hub.h"
#include "transformers/models/registry.h"
#include "transformers/typed_config.h"

namespace transformers {
namespace {

using accelerate::Json;
using accelerate::str_cat;
using accelerate::UnsupportedError;

constexpr std::size_t kMaxConfig = std::size_t{16} << 20;

// Rejects models that need their own Python code or quantized arithmetic. As in
// Python, if the model type is known, the code in the folder is not needed.
void refuse_unsupported(
    const Json& json, const std::string& type, const std::string& source) {
  const std::vector<std::string> known = known_model_types();
  const Json* code = json.find("auto_map");
  if (!std::ranges::count(known, type) && code != nullptr && !code->is_null() &&
      code->size() != 0) {
    throw UnsupportedError(
        str_cat(
            source,
            ": the model type `",
            accelerate::printable(type),
            "` needs custom Python code (`auto_map`)"),
        str_cat(
            "use a model with a supported architecture: ",
            accelerate::join(known, ", ")));
  }
  if (const Json* method = json.find("quantization_config");
      method != nullptr && !method->is_null()) {
    throw UnsupportedError(
        str_cat(source, ": the weights are quantized"),
        "use a folder with unquantized weights");
  }
}

}  // namespace

Config::Config(BertConfig config)
    : Config(std::make_unique<TypedConfig<BertConfig>>(std::move(config))) {
}
Config::Config(RobertaConfig config)
    : Config(std::make_unique<TypedConfig<RobertaConfig>>(std::move(config))) {
}
Config::Config(DistilBertConfig config)
    : Config(
          std::make_unique<TypedConfig<DistilBertConfig>>(std::move(config))) {
}
Config::Config(GPT2Config config)
    : Config(std::make_unique<TypedConfig<GPT2Config>>(std::move(config))) {
}
Config::Config(LlamaConfig config)
    : Config(std::make_unique<TypedConfig<LlamaConfig>>(std::move(config))) {
}
Config::Config(std::unique_ptr<ConfigValue> value) : value_(std::move(value)) {
}
Config::Config(const Config& other) : value_(other.value_->clone()) {
}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config& other) {
  value_ = other.value_->clone();
  return *this;
}
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

std::string_view Config::model_type() const {
  return value_->model_type();
}
const PretrainedConfig& Config::common() const {
  return value_->common();
}
PretrainedConfig& Config::common() {
  return value_->common();
}

template <typename Typed>
Typed& Config::as() {
  if (value_->type() != typeid(Typed)) {
    throw accelerate::ArgumentError(str_cat(
        "the config has the model type `",
        model_type(),
        "`, not `",
        Typed::model_type,
        "`"));
  }
  return *static_cast<Typed*>(value_->typed());
}
template <typename Typed>
const Typed& Config::as() const {
  return const_cast<Config*>(this)->as<Typed>();
}
template TRANSFORMERS_API BertConfig& Config::as();
template TRANSFORMERS_API const BertConfig& Config::as() const;
template TRANSFORMERS_API RobertaConfig& Config::as();
template TRANSFORMERS_API const RobertaConfig& Config::as() const;
template TRANSFORMERS_API DistilBertConfig& Config::as();
template TRANSFORMERS_API const DistilBertConfig& Config::as() const;
template TRANSFORMERS_API GPT2Config& Config::as();
template TRANSFORMERS_API const GPT2Config& Config::as() const;
template TRANSFORMERS_API LlamaConfig& Config::as();
template TRANSFORMERS_API const LlamaConfig& Config::as() const;

Json Config::to_json() const {
  return value_->to_json();
}

Config Config::from_json(const Json& json, const std::string& source) {
  const Json* type = json.find("model_type");
  if (type == nullptr || !type->is_string()) {
    throw accelerate::FormatError(
        str_cat(source, ": `model_type` is missing or not a string"));
  }
  refuse_unsupported(json, type->as_string(), source);
  return Config(
      architecture(type->as_string(), source).read_config(json, source));
}

void Config::save_pretrained(const std::filesystem::path& folder) const {
  accelerate::write_file(
      folder / "config.json",
      to_json().dump({.indent = 2, .allow_nan = true}) + "\n");
}

Config AutoConfig::from_pretrained(
    const std::string& name, hub::ResolveOptions options) {
  std::filesystem::path path(name);
  if (!std::filesystem::is_regular_file(path)) {
    options.content = hub::Content::config;
    path = hub::resolve_folder(name, options) / "config.json";
  }
  return Config::from_json(
      Json::parse(
          accelerate::read_file(path, kMaxConfig),
          {.source = path.string(), .allow_nan = true}),
      path.string());
}

std::vector<std::string> AutoConfig::model_types() {
  return known_model_types();
}

}  // namespace transformers
