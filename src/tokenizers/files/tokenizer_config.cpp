// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/files/tokenizer_config.h"

#include <algorithm>
#include <cmath>

#include "base/str_cat.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using accelerate::str_cat;

// Files contain 1e30 if there is no limit.
constexpr double kNoLimit = 1e20;

Side read_side(const JsonNode& node) {
  if (node.as_string() == "right") {
    return Side::right;
  }
  if (node.as_string() == "left") {
    return Side::left;
  }
  node.fail_unknown("side", node.as_string(), {"right", "left"});
}

std::optional<std::int64_t> read_max_length(const JsonNode& root) {
  // `max_len` is the old name.
  const auto node = root.value().contains("model_max_length")
                        ? root.find("model_max_length")
                        : root.find("max_len");
  if (!node) {
    return std::nullopt;
  }
  const double length = node->as_double();
  if (!(length >= 1)) {
    node->fail(str_cat("expected 1 or more, found ", length));
  }
  if (length != std::floor(length)) {
    node->fail(str_cat("expected a whole number, found ", length));
  }
  return length < kNoLimit ? std::optional(static_cast<std::int64_t>(length))
                           : std::nullopt;
}

void read_special_tokens(
    const ClassArguments& arguments, TokenizerConfig& config) {
  for (const auto& [name, token] : arguments.special_tokens) {
    if (token) {
      config.special_tokens[name] = token->content;
    }
  }
  for (const auto& [name, token] : arguments.model_tokens) {
    config.special_tokens[name] = token.content;
  }
  for (const TokenValue& token :
       arguments.extra_special_tokens.value_or(std::vector<TokenValue>())) {
    config.extra_special_tokens.push_back(token.content);
  }
}

}  // namespace

// Saves the name of the class, so that the class does not depend on the model
// in the folder.
void TokenizerConfig::set_saved_class(
    const TokenizerClass& kind, bool is_rebuilt) {
  if (is_rebuilt && !kind.is_backend()) {
    json["tokenizer_class"] = kind.name;
    return;
  }
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["model_input_names"] = model_input_names;
}

bool TokenizerConfig::takes(const std::string& input) const {
  return std::find(model_input_names.begin(), model_input_names.end(), input) !=
         model_input_names.end();
}

TokenizerConfig read_tokenizer_config(
    const TokenizerClass& kind, const ClassArguments& arguments) {
  TokenizerConfig config;
  config.json = arguments.values;
  const JsonNode root = arguments.node();
  config.model_max_length = read_max_length(root);
  config.padding_side = kind.padding_side;
  if (const auto node = root.find("padding_side")) {
    config.padding_side = read_side(*node);
  }
  if (const auto node = root.find("truncation_side")) {
    config.truncation_side = read_side(*node);
  }
  config.clean_up_tokenization_spaces =
      root.boolean("clean_up_tokenization_spaces", false);
  config.clean_up_spaces_of_bpe = root.boolean(
      "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
      false);
  if (root.boolean("split_special_tokens", false)) {
    root.at("split_special_tokens")
        .fail("splitting special tokens is not supported; expected false");
  }
  config.model_input_names = kind.model_input_names;
  if (const auto node = root.find("model_input_names")) {
    config.model_input_names.clear();
    for (const JsonNode& name : node->elements()) {
      config.model_input_names.push_back(name.as_string());
    }
  }
  if (kind.end_of_word != nullptr) {
    config.end_of_word = kind.end_of_word;
  }
  read_special_tokens(arguments, config);
  return config;
}

}  // namespace transformers::tokenizers
