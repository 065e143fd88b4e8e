// SPDX-License-Identifier: Apache-2.0
// Chooses the tokenizer class of a folder by the rules of `AutoTokenizer` in
// Hugging Face Transformers.
#include <algorithm>
#include <filesystem>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/classes/tokenizer_class.h"
#include "tokenizers/models/model_types.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using accelerate::str_cat;
using accelerate::UnsupportedError;

constexpr const char* kBackend = "TokenizersBackend";

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) {
    name.resize(name.size() - 4);
  }
  return name;
}

bool uses_backend(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      kBackend,
      "BloomTokenizer",
      "PreTrainedTokenizer",
      "PreTrainedTokenizerFast",
      "PythonBackend"};
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

// Whether Hugging Face Transformers has a class with this name.
bool is_known_class(std::string_view name) {
  return find_supported_class(name) != nullptr || uses_backend(name) ||
         is_listed_class(name);
}

std::string text_or_empty(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

bool needs_python_code(const Json& tokenizer_config) {
  const Json* map = tokenizer_config.find("auto_map");
  if (map == nullptr || map->is_null()) {
    return false;
  }
  if (map->is_object()) {
    map = map->find("AutoTokenizer");
  }
  return map != nullptr && !map->is_null();
}

// The class names in the files.
struct ClassNames {
  explicit ClassNames(const TokenizerFolder& folder)
      : tokenizer_class(
            text_or_empty(folder.tokenizer_config, "tokenizer_class")),
        model_class(text_or_empty(folder.model_config, "tokenizer_class")),
        model_type(text_or_empty(folder.model_config, "model_type")),
        model_name(text_or_empty(folder.model_config, "model_name")),
        listed(class_of_model_type(model_type)) {}

  const std::string& named() const {
    return tokenizer_class.empty() ? model_class : tokenizer_class;
  }

  std::string tokenizer_class;  // From tokenizer_config.json.
  std::string model_class;      // From config.json.
  std::string model_type;
  std::string model_name;
  std::string listed;  // The class for `model_type`.
};

// Chooses the class if the class name in the files differs from the table's
// class for the model type.
std::string resolve_conflict(const ClassNames& names) {
  if (uses_backend(names.listed)) {
    return kBackend;
  }
  const bool is_wrong = often_has_wrong_class(names.model_type) ||
                        often_has_wrong_class(names.model_name);
  const std::string chosen =
      without_fast(is_wrong ? names.listed : names.named());
  return is_known_class(chosen) ? chosen : kBackend;
}

std::string name_of_class(const ClassQuery& query, const ClassNames& names) {
  const bool own_code = needs_python_code(query.folder.tokenizer_config);
  std::string named = without_fast(names.named());
  if (!own_code && is_backend_model(query.name_or_path)) {
    return kBackend;
  }
  // Folders of Llama 3 may contain the class name of Llama 2.
  if (!own_code && named == "LlamaTokenizer" &&
      query.tokenizer_json_text.find("\"ByteLevel\"") !=
          std::string_view::npos) {
    return kBackend;
  }
  if (!own_code && !named.empty() && !names.listed.empty() &&
      without_fast(names.listed) != named) {
    return resolve_conflict(names);
  }
  if (!names.tokenizer_class.empty()) {
    const std::string name = without_fast(names.tokenizer_class);
    return is_known_class(name) ? name : kBackend;
  }
  if (!named.empty()) {
    return named;
  }
  return names.listed.empty() || counts_only_with_class(names.model_type)
             ? kBackend
             : names.listed;
}

// Describes the setting that leads to a class, for error messages.
std::string origin(
    const ClassQuery& query, const ClassNames& names, const std::string& name) {
  const auto describe =
      [&](const char* file, const char* key, const std::string& value) {
        return str_cat(
            (query.folder.path / file).string(),
            ": $.",
            key,
            " is `",
            accelerate::printable(value),
            "`");
      };
  const bool by_model_type =
      names.named().empty() ||
      (name == names.listed && without_fast(names.named()) != name);
  if (by_model_type) {
    return describe("config.json", "model_type", names.model_type);
  }
  return names.tokenizer_class.empty()
             ? describe("config.json", "tokenizer_class", names.model_class)
             : describe(
                   "tokenizer_config.json",
                   "tokenizer_class",
                   names.tokenizer_class);
}

[[noreturn]] void refuse_class(
    const ClassQuery& query, const ClassNames& names, const std::string& name) {
  throw UnsupportedError(
      str_cat(
          origin(query, names, name),
          ", but the tokenizer class `",
          accelerate::printable(name),
          "` is not supported"),
      str_cat(
          query.folder.tokenizer_json != nullptr
              ? "to use tokenizer.json as it is, set `tokenizer_class` to "
                "`PreTrainedTokenizerFast` in tokenizer_config.json; other "
                "supported classes are "
              : "use a tokenizer with one of these classes: ",
          accelerate::join(supported_class_names(), ", ")));
}

void check_python_code(const ClassQuery& query, const ClassNames& names) {
  const std::string name = without_fast(names.tokenizer_class);
  if (!needs_python_code(query.folder.tokenizer_config) ||
      (!name.empty() && is_known_class(name)) ||
      (!names.listed.empty() && !counts_only_with_class(names.model_type))) {
    return;
  }
  throw UnsupportedError(
      str_cat(
          (query.folder.path / "tokenizer_config.json").string(),
          ": the tokenizer needs custom Python code (`auto_map`)"),
      "use a tokenizer with a supported class");
}

// Without a tokenizer.json, and without a class or model type in any file, the
// names of the vocabulary files decide.
const TokenizerClass* class_by_files(const TokenizerFolder& folder) {
  if (std::filesystem::exists(folder.path / "vocab.txt")) {
    return find_supported_class("BertTokenizer");
  }
  return find_supported_class("GPT2Tokenizer");
}

}  // namespace

const TokenizerClass& choose_class(const ClassQuery& query) {
  const ClassNames names(query.folder);
  check_python_code(query, names);
  const bool has_json = query.folder.tokenizer_json != nullptr;
  if (names.named().empty() && names.model_type.empty() && !has_json) {
    return *class_by_files(query.folder);
  }
  const std::string name = name_of_class(query, names);
  if (uses_backend(name)) {
    if (!has_json) {
      throw UnsupportedError(
          str_cat(
              origin(query, names, name),
              ", so a tokenizer.json is needed, but the folder has none"),
          "save the tokenizer with a current version of Hugging Face "
          "Transformers");
    }
    return tokenizers_backend();
  }
  const TokenizerClass* found = find_supported_class(name);
  if (found == nullptr) {
    refuse_class(query, names, name);
  }
  return *found;
}

}  // namespace transformers::tokenizers
