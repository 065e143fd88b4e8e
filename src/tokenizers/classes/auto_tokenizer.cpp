// SPDX-License-Identifier: Apache-2.0
// Loads and saves tokenizers.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/classes/class_pipeline.h"
#include "tokenizers/classes/legacy_files.h"
#include "tokenizers/classes/tokenizer_class.h"
#include "tokenizers/tokenizer_impl.h"
#include "transformers/hub.h"

namespace transformers {
namespace {

using accelerate::Json;
using accelerate::str_cat;
using tokenizers::Pipeline;
using tokenizers::TokenizerClass;
using tokenizers::TokenizerConfig;
using tokenizers::TokenizerFolder;
namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  if (!fs::exists(path)) {
    return Json::object();
  }
  const std::string text =
      accelerate::read_file(path, tokenizers::kMaxFileBytes);
  Json value = Json::parse(
      text, {.source = path.string(), .max_depth = 64, .allow_nan = true});
  if (!value.is_object()) {
    throw accelerate::FormatError(
        str_cat(path.string(), ": $: expected an object"));
  }
  return value;
}

const char* name_of(Side side) {
  return side == Side::left ? "left" : "right";
}

// Reads the other files in the folder only if `file` is named tokenizer.json.
TokenizerFolder read_folder(const fs::path& file) {
  const fs::path path = file.parent_path();
  TokenizerFolder folder{.path = path};
  if (file.filename() != "tokenizer.json") {
    return folder;
  }
  folder.tokenizer_config = read_json(path / "tokenizer_config.json");
  folder.special_tokens_map = read_json(path / "special_tokens_map.json");
  folder.added_tokens = read_json(path / "added_tokens.json");
  folder.model_config = read_json(path / "config.json");
  return folder;
}

void check_options(
    const TokenizerClass& kind, const TokenizerOptions& options) {
  if (options.add_prefix_space && !kind.reads_prefix_space) {
    throw accelerate::ArgumentError(
        str_cat(
            "add_prefix_space is set, but the tokenizer class `",
            kind.name,
            "` does not have this setting"),
        "leave add_prefix_space out; tokenizer.json determines whether a space "
        "is added");
  }
}

// Reads the vocabulary and builds the tokenizer.
class Loader {
 public:
  Loader(std::string name_or_path, fs::path file)
      : name_or_path_(std::move(name_or_path)),
        folder_(read_folder(file)),
        file_(std::move(file)) {
    if (fs::exists(file_)) {
      mapped_.emplace(file_, accelerate::MappedFile::Mode::read_only);
      json_ = tokenizers::split_tokenizer_json(
          mapped_->text(), file_.string(), true);
      folder_.tokenizer_json = &json_.description;
    } else {
      check_vocabulary();
    }
  }

  std::shared_ptr<Tokenizer::Impl> load(const TokenizerOptions& options) {
    const TokenizerClass& kind = tokenizers::choose_class(
        {name_or_path_,
         folder_,
         mapped_ ? mapped_->text() : std::string_view()});
    check_options(kind, options);
    auto arguments = tokenizers::read_class_arguments(folder_, options);
    const tokenizers::SavedCallSettings settings =
        mapped_ ? tokenizers::read_call_settings(tokenizers::JsonNode(
                      json_.description, file_.string(), "$"))
                : tokenizers::SavedCallSettings();
    tokenizers::complete_arguments(kind, settings, arguments);
    auto config = tokenizers::read_tokenizer_config(kind, arguments);
    auto pipeline = build(kind, arguments);
    config.set_saved_class(
        kind, tokenizers::rebuilds_post_processor(kind, arguments, *pipeline));
    return std::make_shared<Tokenizer::Impl>(
        std::move(config), std::move(pipeline));
  }

 private:
  void check_vocabulary() const {
    const auto exists = [&](const char* name) {
      return fs::exists(folder_.path / name);
    };
    if (!exists("vocab.txt") &&
        !(exists("vocab.json") && exists("merges.txt"))) {
      throw accelerate::IoError(
          str_cat(
              "`",
              folder_.path.string(),
              "` contains neither tokenizer.json, nor vocab.txt, nor "
              "vocab.json with merges.txt"),
          "pass a folder that `save_pretrained` wrote");
    }
  }

  std::unique_ptr<Pipeline> build(
      const TokenizerClass& kind,
      const tokenizers::ClassArguments& arguments) const {
    if (mapped_) {
      return tokenizers::build_class_pipeline(
          kind, arguments, &json_.description, json_.model, file_.string());
    }
    const auto text = tokenizers::read_vocabulary_files(folder_.path, kind);
    return tokenizers::build_class_pipeline(
        kind, arguments, nullptr, text.model_text(), text.source);
  }

  std::string name_or_path_;
  TokenizerFolder folder_;
  fs::path file_;
  std::optional<accelerate::MappedFile> mapped_;
  tokenizers::TokenizerJson json_;
};

}  // namespace

Tokenizer AutoTokenizer::from_pretrained(
    const std::string& name_or_path, const TokenizerOptions& options) {
  const fs::path file =
      fs::is_regular_file(name_or_path)
          ? fs::path(name_or_path)
          : hub::resolve_folder(name_or_path, options.hub) / "tokenizer.json";
  return Tokenizer(Loader(name_or_path, file).load(options));
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
  for (const std::string& name : tokenizers::special_token_names()) {
    const auto token = config.special_tokens.find(name);
    if (token != config.special_tokens.end()) {
      json[name] = token->second;
    }
  }
  if (!config.extra_special_tokens.empty()) {
    json.as_object().erase("additional_special_tokens");
    json["extra_special_tokens"] = config.extra_special_tokens;
  }
  json["padding_side"] = name_of(config.padding_side);
  json["truncation_side"] = name_of(config.truncation_side);
  json["clean_up_tokenization_spaces"] = config.clean_up_tokenization_spaces;
  return json;
}

}  // namespace

void Tokenizer::save_pretrained(const fs::path& folder) const {
  const TokenizerConfig& config = impl_->config();
  Json map = Json::object();
  for (const std::string& name : tokenizers::special_token_names()) {
    const auto token = config.special_tokens.find(name);
    if (token != config.special_tokens.end()) {
      map[name] = token->second;
    }
  }
  const auto write = [&](const char* name, const Json& json) {
    accelerate::write_file(
        folder / name, json.dump({.indent = 2, .allow_nan = true}) + "\n");
  };
  write("tokenizer.json", tokenizer_json(impl_->pipeline()));
  write(
      "tokenizer_config.json",
      tokenizer_config_json(config, impl_->pipeline()));
  write("special_tokens_map.json", map);
}

}  // namespace transformers
