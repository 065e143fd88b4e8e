// SPDX-License-Identifier: Apache-2.0
// The settings of a tokenizer, from the files of its folder and the caller's
// options. Hugging Face Transformers passes these arguments to the constructor
// of the tokenizer class.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizers/added_tokens.h"
#include "tokenizers/files/json_node.h"
#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

/// A special or added token. In the files, a token is a string, or an object
/// with flags.
struct TokenValue {
  std::string content;
  bool is_text = true;  // Whether the token is a string in the file.
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  // Default: the opposite of `special`.
  std::optional<bool> normalized = std::nullopt;
  bool special = false;

  static TokenValue from_text(std::string text) { return {std::move(text)}; }
  /// Converts the value; a text becomes a special token.
  AddedToken to_added_token() const;
  bool operator==(const TokenValue&) const = default;
};

/// Tokens by name, in the order in which they are added.
using NamedTokens = std::vector<std::pair<std::string, TokenValue>>;

struct ClassArguments {
  /// Settings by name, such as `do_lower_case`. `source` is the file name for
  /// error messages.
  accelerate::Json values = accelerate::Json::object();
  std::string source;
  /// Whether the folder has a tokenizer.json.
  bool has_tokenizer_json = false;
  /// The tokens `bos_token`, `eos_token`, … If a file contains null for a
  /// token, the optional is empty, and the class must not use a default token.
  std::map<std::string, std::optional<TokenValue>> special_tokens;
  /// Tokens with other names, which some models define.
  NamedTokens model_tokens;
  /// The value of `extra_special_tokens`, or of `additional_special_tokens`,
  /// which is the old name of `extra_special_tokens`.
  std::optional<std::vector<TokenValue>> extra_special_tokens;
  /// The value of `additional_special_tokens` in special_tokens_map.json, or in
  /// tokenizer_config.json if that file also contains `extra_special_tokens`.
  /// Only some classes read this value.
  std::optional<std::vector<TokenValue>> additional_special_tokens;
  /// Added tokens by id. Tokens in tokenizer.json replace tokens with the same
  /// id in added_tokens.json.
  std::map<std::int64_t, TokenValue> added_tokens;

  JsonNode node() const { return JsonNode(values, source, "$"); }
  /// Returns the text of a special token. Throws `FormatError` when the files
  /// set it to null.
  const std::string& token(const std::string& name) const;
  /// Sets a special token, unless the files set it.
  void set_default(const std::string& name, TokenValue token);
};

/// Returns the names of special tokens ("bos_token", …), in the order in which
/// they are added.
const std::vector<std::string>& special_token_names();

/// The JSON files next to the vocabulary. A missing file is an empty object.
struct TokenizerFolder {
  std::filesystem::path path;
  accelerate::Json tokenizer_config = accelerate::Json::object();
  accelerate::Json special_tokens_map = accelerate::Json::object();
  accelerate::Json added_tokens = accelerate::Json::object();
  accelerate::Json model_config = accelerate::Json::object();
  /// tokenizer.json without the vocabulary; null if there is no such file.
  const accelerate::Json* tokenizer_json = nullptr;
};

/// Combines the files and the options. Options override files. Throws
/// `FormatError` with the file and the JSON path when a value has the wrong
/// type.
ClassArguments read_class_arguments(
    const TokenizerFolder& folder, const TokenizerOptions& options);

}  // namespace transformers::tokenizers
