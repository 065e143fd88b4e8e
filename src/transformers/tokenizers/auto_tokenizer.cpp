// SPDX-License-Identifier: Apache-2.0
// Loads and saves tokenizers.
#include <algorithm>
#include <filesystem>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/hub.h"
#include "transformers/tokenizers/family.h"
#include "transformers/tokenizers/legacy_files.h"
#include "transformers/tokenizers/tokenizer_impl.h"

namespace transformers {
namespace {

using accelerate::Json;
using accelerate::str_cat;
using tokenizers::Pipeline;
using tokenizers::TokenizerConfig;
namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  if (!fs::exists(path)) {
    return Json::object();
  }
  const std::string text =
      accelerate::read_file(path, tokenizers::kMaxFileBytes);
  Json value = Json::parse(text, {.source = path.string(), .max_depth = 64});
  if (!value.is_object()) {
    throw accelerate::FormatError(
        str_cat(path.string(), ": $: expected an object"));
  }
  return value;
}

const char* name_of(Side side) {
  return side == Side::left ? "left" : "right";
}

// The caller's options override the files.
void override_config(const TokenizerOptions& options, Json& config_json) {
  if (options.padding_side) {
    config_json["padding_side"] = name_of(*options.padding_side);
  }
  if (options.truncation_side) {
    config_json["truncation_side"] = name_of(*options.truncation_side);
  }
  if (options.model_max_length) {
    config_json["model_max_length"] = *options.model_max_length;
  }
  if (options.add_prefix_space) {
    config_json["add_prefix_space"] = *options.add_prefix_space;
  }
  for (const auto& [name, token] : options.special_tokens) {
    const auto& names = tokenizers::special_token_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw accelerate::ArgumentError(
          str_cat(
              "special_tokens has the key `",
              name,
              "`, which is not the name of a special token"),
          str_cat("use one of ", accelerate::join(names, ", ")));
    }
    config_json[name] = token;
  }
}

Json read_config_json(const fs::path& folder, const TokenizerOptions& options) {
  Json config_json = read_json(folder / "tokenizer_config.json");
  const Json map = read_json(folder / "special_tokens_map.json");
  for (const std::string& name : tokenizers::special_token_names()) {
    if (const Json* token = map.find(name);
        token && !config_json.contains(name)) {
      config_json[name] = *token;
    }
  }
  override_config(options, config_json);
  return config_json;
}

std::unique_ptr<Pipeline> read_pipeline_from(
    const fs::path& folder,
    const fs::path& file,
    const Json& config_json,
    const std::string& family) {
  if (fs::exists(file)) {
    const accelerate::MappedFile text(
        file, accelerate::MappedFile::Mode::read_only);
    return std::make_unique<Pipeline>(
        tokenizers::read_pipeline(text.text(), file.string(), true));
  }
  auto pipeline = tokenizers::read_legacy_folder(folder, config_json, family);
  if (pipeline == nullptr) {
    throw accelerate::IoError(
        str_cat(
            "`",
            folder.string(),
            "` contains neither tokenizer.json, nor vocab.txt, nor vocab.json "
            "with merges.txt"),
        "pass a folder that `save_pretrained` wrote");
  }
  return pipeline;
}

}  // namespace

Tokenizer AutoTokenizer::from_pretrained(
    const std::string& name_or_path, const TokenizerOptions& options) {
  const bool is_file = fs::is_regular_file(name_or_path);
  const fs::path path = is_file
                            ? fs::path(name_or_path)
                            : hub::resolve_folder(name_or_path, options.hub);
  const bool is_folder = !is_file;
  const fs::path folder = is_folder ? path : path.parent_path();
  const fs::path file = is_folder ? path / "tokenizer.json" : path;
  Json config_json = read_config_json(folder, options);
  std::string model_type;
  const Json model = read_json(folder / "config.json");
  if (const Json* type = model.find("model_type")) {
    model_type = type->is_string() ? type->as_string() : "";
  }
  if (model_type.empty() && !fs::exists(file)) {
    model_type = fs::exists(folder / "vocab.txt") ? "bert" : "gpt2";
  }
  TokenizerConfig config = tokenizers::read_tokenizer_config(
      std::move(config_json),
      (folder / "tokenizer_config.json").string(),
      model_type);
  const Json* class_name = config.json.find("tokenizer_class");
  const auto& family = tokenizers::family_of(
      class_name != nullptr && class_name->is_string() ? class_name->as_string()
                                                       : model_type);
  auto pipeline = read_pipeline_from(folder, file, config.json, family.name);
  tokenizers::apply_tokenizer_config(config, *pipeline, fs::exists(file));
  return Tokenizer(std::make_shared<Tokenizer::Impl>(
      std::move(config), std::move(pipeline)));
}

namespace {

Json token_json(const tokenizers::AddedToken& token, bool with_id) {
  Json json = Json::object();
  if (with_id) {
    json["id"] = token.id;
  }
  json["content"] = token.content;
  json["single_word"] = token.single_word;
  json["lstrip"] = token.lstrip;
  json["rstrip"] = token.rstrip;
  json["normalized"] = token.normalized;
  json["special"] = token.special;
  return json;
}

std::vector<tokenizers::AddedToken> sorted_tokens(const Pipeline& pipeline) {
  auto tokens = pipeline.added_tokens.all();
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return a.id < b.id;
  });
  return tokens;
}

Json tokenizer_json(const Pipeline& pipeline) {
  Json json = pipeline.description;
  Json added = Json::array();
  for (const auto& token : sorted_tokens(pipeline)) {
    added.push_back(token_json(token, true));
  }
  json["added_tokens"] = std::move(added);
  json["model"]["type"] = pipeline.model->name();
  json["model"]["vocab"] = pipeline.model->vocab_json();
  Json merges = pipeline.model->merges_json();
  if (!merges.is_null()) {
    json["model"]["merges"] = std::move(merges);
  }
  return json;
}

Json tokenizer_config_json(
    const TokenizerConfig& config, const Pipeline& pipeline) {
  Json json = config.json;
  Json added = Json::object();
  for (const auto& token : sorted_tokens(pipeline)) {
    added[std::to_string(token.id)] = token_json(token, false);
  }
  json["added_tokens_decoder"] = std::move(added);
  for (const auto& [name, text] : config.special_tokens) {
    json[name] = text;
  }
  json["padding_side"] = name_of(config.padding_side);
  json["truncation_side"] = name_of(config.truncation_side);
  json["clean_up_tokenization_spaces"] = config.clean_up_tokenization_spaces;
  if (!json.contains("tokenizer_class")) {
    json["tokenizer_class"] = "PreTrainedTokenizerFast";
    // That class does not know the input names by itself.
    Json::Array names;
    for (const std::string& name : config.model_input_names) {
      names.push_back(name);
    }
    json["model_input_names"] = std::move(names);
  }
  return json;
}

}  // namespace

void Tokenizer::save_pretrained(const fs::path& folder) const {
  const TokenizerConfig& config = impl_->config();
  Json map = Json::object();
  for (const auto& [name, text] : config.special_tokens) {
    map[name] = text;
  }
  const auto write = [&](const char* name, const Json& json) {
    accelerate::write_file(folder / name, json.dump({.indent = 2}) + "\n");
  };
  write("tokenizer.json", tokenizer_json(impl_->pipeline()));
  write(
      "tokenizer_config.json",
      tokenizer_config_json(config, impl_->pipeline()));
  write("special_tokens_map.json", map);
}

}  // namespace transformers
