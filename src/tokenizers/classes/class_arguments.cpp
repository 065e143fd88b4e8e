// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/classes/class_arguments.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::tokenizers {

using accelerate::Json;
using accelerate::str_cat;

AddedToken TokenValue::to_added_token() const {
  AddedToken token;
  token.content = content;
  token.single_word = single_word;
  token.lstrip = lstrip;
  token.rstrip = rstrip;
  token.special = special || is_text;
  token.normalized = normalized.value_or(!token.special);
  return token;
}

const std::string& ClassArguments::token(const std::string& name) const {
  const auto found = special_tokens.find(name);
  if (found == special_tokens.end() || !found->second) {
    throw accelerate::FormatError(
        str_cat(source, ": $.", name, ": the tokenizer needs this token"),
        "set it to a token in the vocabulary");
  }
  return found->second->content;
}

void ClassArguments::set_default(const std::string& name, TokenValue token) {
  special_tokens.emplace(name, std::move(token));
}

const std::vector<std::string>& special_token_names() {
  static const std::vector<std::string> names = {
      "bos_token",
      "eos_token",
      "unk_token",
      "sep_token",
      "pad_token",
      "cls_token",
      "mask_token"};
  return names;
}

namespace {

bool is_special_token_name(const std::string& name) {
  const auto& names = special_token_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

TokenValue read_token(const JsonNode& node) {
  if (node.value().is_string()) {
    return TokenValue::from_text(node.as_string());
  }
  TokenValue token{.content = node.string("content"), .is_text = false};
  token.single_word = node.boolean("single_word", false);
  token.lstrip = node.boolean("lstrip", false);
  token.rstrip = node.boolean("rstrip", false);
  token.special = node.boolean("special", false);
  if (const auto normalized = node.find("normalized")) {
    token.normalized = normalized->as_bool();
  }
  return token;
}

// Reads a token from special_tokens_map.json, where a token with flags is
// special even if the flag `special` is false or missing.
TokenValue read_map_token(const JsonNode& node) {
  TokenValue token = read_token(node);
  token.special = !token.is_text;
  return token;
}

template <typename Read>
std::vector<TokenValue> read_tokens(const JsonNode& list, Read read) {
  std::vector<TokenValue> tokens;
  for (const JsonNode& node : list.elements()) {
    tokens.push_back(read(node));
  }
  return tokens;
}

void set_token(NamedTokens& tokens, const std::string& name, TokenValue value) {
  for (auto& [existing, token] : tokens) {
    if (existing == name) {
      token = std::move(value);
      return;
    }
  }
  tokens.emplace_back(name, std::move(value));
}

bool is_empty(const Json* value) {
  return value == nullptr || value->is_null() ||
         ((value->is_array() || value->is_object()) && value->size() == 0);
}

bool is_model_token(const std::string& name, const Json& value) {
  return name.ends_with("_token") && !is_special_token_name(name) &&
         (value.is_string() || value.contains("content"));
}

// Reads the tokens that a model defines in addition to the usual tokens. Tokens
// with flags come first, as in Hugging Face Transformers.
void read_model_tokens(const JsonNode& config, ClassArguments& arguments) {
  for (const bool texts : {false, true}) {
    for (const auto& [name, node] : config.members()) {
      if (is_model_token(name, node.value()) &&
          node.value().is_string() == texts) {
        set_token(arguments.model_tokens, name, read_token(node));
      }
    }
  }
}

// `additional_special_tokens` is the old name of `extra_special_tokens`. If
// both names are set, the old name is a separate argument.
void read_extra_tokens(const JsonNode& config, ClassArguments& arguments) {
  const Json& values = config.value();
  const bool use_old_name = values.contains("additional_special_tokens") &&
                            is_empty(values.find("extra_special_tokens"));
  const auto additional = config.find("additional_special_tokens");
  if (!use_old_name && additional) {
    arguments.additional_special_tokens = read_tokens(*additional, read_token);
  }
  const auto extra =
      use_old_name ? additional : config.find("extra_special_tokens");
  if (extra && extra->value().is_object()) {
    for (const auto& [name, node] : extra->members()) {
      set_token(arguments.model_tokens, name, read_token(node));
    }
  } else if (extra) {
    arguments.extra_special_tokens = read_tokens(*extra, read_token);
  } else if (use_old_name || values.contains("extra_special_tokens")) {
    arguments.extra_special_tokens.emplace();  // Null means no tokens.
  }
}

void read_named_tokens(const JsonNode& config, ClassArguments& arguments) {
  for (const std::string& name : special_token_names()) {
    if (const auto node = config.find(name)) {
      arguments.special_tokens[name] = read_token(*node);
    } else if (config.value().contains(name)) {
      arguments.special_tokens[name] = std::nullopt;
    }
  }
}

// Added tokens by text, including those that a later file replaces.
using TokensByText = std::map<std::string, TokenValue>;

void set_added_token(
    std::int64_t id,
    TokenValue token,
    ClassArguments& arguments,
    TokensByText& by_text) {
  by_text[token.content] = token;
  arguments.added_tokens[id] = std::move(token);
}

// `added_tokens_decoder`: {"50256": {"content": …}, …}
void read_added_tokens_decoder(
    const JsonNode& listed, ClassArguments& arguments, TokensByText& by_text) {
  for (const auto& [key, node] : listed.members()) {
    std::int64_t id = -1;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      node.fail("expected a token id as the key");
    }
    set_added_token(id, read_token(node), arguments, by_text);
  }
}

// special_tokens_map.json overrides tokenizer_config.json, but not the caller's
// options.
void merge_special_tokens_map(
    const JsonNode& map,
    const TokenizerOptions& options,
    ClassArguments& arguments) {
  for (const auto& [name, node] : map.members()) {
    if (options.special_tokens.contains(name)) {
      continue;
    }
    if (is_special_token_name(name)) {
      arguments.special_tokens[name] =
          node.value().is_null() ? std::nullopt
                                 : std::optional(read_map_token(node));
    } else if (name == "extra_special_tokens" && node.value().is_array()) {
      auto& extra = arguments.extra_special_tokens;
      extra = extra.value_or(std::vector<TokenValue>());
      for (TokenValue& token : read_tokens(node, read_map_token)) {
        if (std::find(extra->begin(), extra->end(), token) == extra->end()) {
          extra->push_back(std::move(token));
        }
      }
    } else if (name == "additional_special_tokens" && node.value().is_array()) {
      arguments.additional_special_tokens = read_tokens(node, read_map_token);
    } else if (is_model_token(name, node.value())) {
      set_token(arguments.model_tokens, name, read_map_token(node));
    }
  }
}

// added_tokens.json: {"<token>": 30522, …}. A token is special if the files
// also list it as a special token, unless tokenizer_config.json contains the
// token with flags.
void read_added_tokens_json(
    const JsonNode& file,
    const Json& map,
    ClassArguments& arguments,
    TokensByText& by_text) {
  std::set<std::string> special;
  for (const auto& [name, token] : arguments.special_tokens) {
    if (token && (token->is_text || map.contains(name))) {
      special.insert(token->content);
    }
  }
  for (const TokenValue& token :
       arguments.extra_special_tokens.value_or(std::vector<TokenValue>())) {
    if (token.is_text) {
      special.insert(token.content);
    }
  }
  for (const auto& [content, node] : file.members()) {
    const bool is_special = special.contains(content);
    const std::int64_t id = node.as_integer();
    if (id < 0) {
      node.fail(str_cat("the id ", id, " is negative"));
    }
    TokenValue token{.content = content, .is_text = false};
    token.normalized = !is_special;
    token.special = is_special;
    set_added_token(id, std::move(token), arguments, by_text);
  }
}

TokensByText read_added_tokens(
    const TokenizerFolder& folder,
    const TokenizerOptions& options,
    ClassArguments& arguments) {
  TokensByText by_text;
  const auto node = [&](const Json& json, const char* name) {
    return JsonNode(json, (folder.path / name).string(), "$");
  };
  if (const auto listed = arguments.node().find("added_tokens_decoder")) {
    // This setting lists all added tokens, so other files are not read.
    read_added_tokens_decoder(*listed, arguments, by_text);
    return by_text;
  }
  merge_special_tokens_map(
      node(folder.special_tokens_map, "special_tokens_map.json"),
      options,
      arguments);
  read_added_tokens_json(
      node(folder.added_tokens, "added_tokens.json"),
      folder.special_tokens_map,
      arguments,
      by_text);
  if (folder.tokenizer_json != nullptr) {
    const auto listed =
        node(*folder.tokenizer_json, "tokenizer.json").find("added_tokens");
    for (const JsonNode& token :
         listed ? listed->elements() : std::vector<JsonNode>()) {
      set_added_token(
          token.integer("id"), read_token(token), arguments, by_text);
    }
  }
  return by_text;
}

// Gives each special token that is also an added token the flags of the added
// token.
void use_flags_of_added_tokens(
    const TokensByText& by_text, ClassArguments& arguments) {
  for (auto& [name, token] : arguments.special_tokens) {
    const auto found = token ? by_text.find(token->content) : by_text.end();
    if (found != by_text.end()) {
      token = found->second;
    }
  }
}

void check_special_token_name(const std::string& name) {
  if (!is_special_token_name(name)) {
    throw accelerate::ArgumentError(
        str_cat(
            "special_tokens has the key `",
            name,
            "`, which is not the name of a special token"),
        str_cat("use one of ", accelerate::join(special_token_names(), ", ")));
  }
}

void override_values(const TokenizerOptions& options, Json& values) {
  const auto name_of = [](Side side) {
    return side == Side::left ? "left" : "right";
  };
  if (options.padding_side) {
    values["padding_side"] = name_of(*options.padding_side);
  }
  if (options.truncation_side) {
    values["truncation_side"] = name_of(*options.truncation_side);
  }
  if (options.model_max_length) {
    values["model_max_length"] = *options.model_max_length;
  }
  if (options.add_prefix_space) {
    values["add_prefix_space"] = *options.add_prefix_space;
  }
  for (const auto& [name, token] : options.special_tokens) {
    check_special_token_name(name);
    values[name] = token;
  }
}

void refuse_unsupported(const JsonNode& config) {
  if (const auto inputs = config.find("init_inputs");
      inputs && inputs->value().size() != 0) {
    inputs->fail("positional arguments are not supported; expected []");
  }
  if (config.boolean("fix_mistral_regex", false)) {
    config.at("fix_mistral_regex")
        .fail(
            "replacing the regular expression is not supported; expected "
            "false");
  }
  if (const auto files = config.find("fast_tokenizer_files")) {
    for (const JsonNode& file : files->elements()) {
      if (file.as_string() != "tokenizer.json") {
        file.fail(str_cat(
            "`",
            accelerate::printable(file.as_string()),
            "` is not supported; only `tokenizer.json` is"));
      }
    }
  }
}

}  // namespace

ClassArguments read_class_arguments(
    const TokenizerFolder& folder, const TokenizerOptions& options) {
  ClassArguments arguments;
  arguments.values = folder.tokenizer_config;
  arguments.source = (folder.path / "tokenizer_config.json").string();
  arguments.has_tokenizer_json = folder.tokenizer_json != nullptr;
  override_values(options, arguments.values);
  const JsonNode config = arguments.node();
  refuse_unsupported(config);
  read_named_tokens(config, arguments);
  read_model_tokens(config, arguments);
  read_extra_tokens(config, arguments);
  use_flags_of_added_tokens(
      read_added_tokens(folder, options, arguments), arguments);
  return arguments;
}

}  // namespace transformers::tokenizers
