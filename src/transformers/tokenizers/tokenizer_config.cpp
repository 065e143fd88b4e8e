// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/tokenizers/family.h"

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

// A token is a string, or an object with `content`.
std::string token_text(const JsonNode& node) {
  return node.value().is_string() ? node.as_string() : node.string("content");
}

}  // namespace

const std::vector<std::string>& special_token_names() {
  static const std::vector<std::string> parts = {
      "bos_token",
      "eos_token",
      "unk_token",
      "sep_token",
      "pad_token",
      "cls_token",
      "mask_token"};
  return parts;
}

bool TokenizerConfig::takes(const std::string& input) const {
  return std::find(model_input_names.begin(), model_input_names.end(), input) !=
         model_input_names.end();
}

TokenizerConfig read_tokenizer_config(
    Json json, const std::string& source, const std::string& model_type) {
  TokenizerConfig config;
  config.json = std::move(json);
  const JsonNode root(config.json, source, "$");
  const Family& family = family_of(root.string("tokenizer_class", model_type));
  config.padding_side = family.padding_side;
  config.special_tokens = family.special_tokens;
  if (family.token_type_ids) {
    config.model_input_names = {
        "input_ids", "token_type_ids", "attention_mask"};
  }
  if (const auto node = root.find("model_max_length")) {
    const double length = node->as_double();
    if (length < 1) {
      node->fail(str_cat("expected 1 or more, found ", length));
    }
    if (length < kNoLimit) {
      config.model_max_length = static_cast<std::int64_t>(length);
    }
  }
  if (const auto node = root.find("padding_side")) {
    config.padding_side = read_side(*node);
  }
  if (const auto node = root.find("truncation_side")) {
    config.truncation_side = read_side(*node);
  }
  config.clean_up_tokenization_spaces =
      root.boolean("clean_up_tokenization_spaces", false);
  config.pad_token_type_id = root.integer("pad_token_type_id", 0);
  if (root.boolean("split_special_tokens", false)) {
    root.at("split_special_tokens")
        .fail("splitting special tokens is not supported; expected false");
  }
  if (const auto node = root.find("model_input_names")) {
    config.model_input_names.clear();
    for (const JsonNode& name : node->elements()) {
      config.model_input_names.push_back(name.as_string());
    }
  }
  for (const std::string& name : special_token_names()) {
    if (const auto node = root.find(name)) {
      config.special_tokens[name] = token_text(*node);
    } else if (root.value().contains(name)) {
      config.special_tokens.erase(name);  // Null means no token.
    }
  }
  return config;
}

namespace {

// `added_tokens_decoder`: {"50256": {"content": …}, …}, smallest id first.
void add_listed_tokens(const JsonNode& root, Pipeline& pipeline) {
  const auto listed = root.find("added_tokens_decoder");
  if (!listed) {
    return;
  }
  std::vector<std::pair<std::int64_t, AddedToken>> tokens;
  for (const auto& [key, node] : listed->members()) {
    std::int64_t id = -1;
    const auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      node.fail("expected a token id as the key");
    }
    tokens.emplace_back(id, read_added_token(node));
  }
  std::stable_sort(
      tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
      });
  for (const auto& [id, token] : tokens) {
    if (pipeline.added_tokens.find(token.content) == nullptr) {
      pipeline.added_tokens.add(token, pipeline.model->vocabulary());
    }
  }
}

AddedToken special_token(const JsonNode& root, const std::string& name) {
  const auto node = root.find(name);
  AddedToken token;
  if (node && node->value().is_object()) {
    token = read_added_token(*node);
  }
  token.special = true;
  token.normalized = false;
  return token;
}

void add_special_tokens(
    const JsonNode& root, TokenizerConfig& config, Pipeline& pipeline) {
  for (const auto& [name, text] : config.special_tokens) {
    const AddedToken* existing = pipeline.added_tokens.find(text);
    if (existing != nullptr && existing->special) {
      continue;
    }
    AddedToken token =
        existing != nullptr ? *existing : special_token(root, name);
    token.content = text;
    token.special = true;
    pipeline.added_tokens.add(token, pipeline.model->vocabulary());
  }
  const auto additional = root.find("additional_special_tokens");
  const auto extra = root.find("extra_special_tokens");
  for (const auto& list : {additional, extra}) {
    if (!list || !list->value().is_array()) {
      continue;
    }
    for (const JsonNode& node : list->elements()) {
      AddedToken token =
          node.value().is_object() ? read_added_token(node) : AddedToken();
      token.content = token_text(node);
      token.special = true;
      token.normalized = false;
      config.extra_special_tokens.push_back(token.content);
      if (pipeline.added_tokens.find(token.content) == nullptr) {
        pipeline.added_tokens.add(token, pipeline.model->vocabulary());
      }
    }
  }
}

// Drops the default tokens of the family that the vocabulary lacks.
void drop_missing_defaults(
    const JsonNode& root, TokenizerConfig& config, const Pipeline& pipeline) {
  std::erase_if(config.special_tokens, [&](const auto& entry) {
    return !root.value().contains(entry.first) &&
           !pipeline.model->vocabulary().find(entry.second) &&
           pipeline.added_tokens.find(entry.second) == nullptr;
  });
}

// Appends one sequence, with the tokens of `add_bos_token` and `add_eos_token`.
Json template_with_bos_eos(
    const JsonNode& root,
    const TokenizerConfig& config,
    const char* sequence,
    int type_id,
    Json pieces) {
  const auto add = [&](const char* flag, const char* name) {
    const auto token = config.special_tokens.find(name);
    if (root.boolean(flag, false) && token != config.special_tokens.end()) {
      pieces.push_back(Json::object(
          {{"SpecialToken",
            Json::object({{"id", token->second}, {"type_id", type_id}})}}));
    }
  };
  add("add_bos_token", "bos_token");
  pieces.push_back(Json::object(
      {{"Sequence", Json::object({{"id", sequence}, {"type_id", type_id}})}}));
  add("add_eos_token", "eos_token");
  return pieces;
}

// Used without a tokenizer.json, which would define the special tokens.
void apply_bos_eos_template(
    const JsonNode& root, const TokenizerConfig& config, Pipeline& pipeline) {
  if (!root.find("add_bos_token") && !root.find("add_eos_token")) {
    return;
  }
  Json tokens = Json::object();
  for (const char* name : {"bos_token", "eos_token"}) {
    const auto token = config.special_tokens.find(name);
    if (token != config.special_tokens.end()) {
      const std::string& text = token->second;
      const std::uint32_t id = pipeline.added_tokens.find(text)->id;
      tokens[text] = Json::object(
          {{"id", text},
           {"ids", Json::array({id})},
           {"tokens", Json::array({text})}});
    }
  }
  const Json single =
      template_with_bos_eos(root, config, "A", 0, Json::array());
  Json& description = pipeline.description["post_processor"];
  description = Json::object(
      {{"type", "TemplateProcessing"},
       {"single", single},
       {"pair", template_with_bos_eos(root, config, "B", 1, single)},
       {"special_tokens", tokens}});
  pipeline.post_processor = make_post_processor(
      JsonNode(description, root.source(), "$.post_processor"));
}

void set_prefix_space(PreTokenizer* stage, bool value) {
  if (auto* byte_level = dynamic_cast<ByteLevelPreTokenizer*>(stage)) {
    byte_level->add_prefix_space = value;
  } else if (auto* sequence = dynamic_cast<PreTokenizerSequence*>(stage)) {
    for (const auto& part : sequence->parts) {
      set_prefix_space(part.get(), value);
    }
  }
}

}  // namespace

void apply_tokenizer_config(
    TokenizerConfig& config, Pipeline& pipeline, bool has_tokenizer_json) {
  const JsonNode root(config.json, "tokenizer_config.json", "$");
  add_listed_tokens(root, pipeline);
  drop_missing_defaults(root, config, pipeline);
  add_special_tokens(root, config, pipeline);
  if (!has_tokenizer_json) {
    apply_bos_eos_template(root, config, pipeline);
  }
  if (const auto prefix = root.find("add_prefix_space")) {
    set_prefix_space(pipeline.pre_tokenizer.get(), prefix->as_bool());
  }
  pipeline.added_tokens.prepare(pipeline.normalizer.get());
}

}  // namespace transformers::tokenizers
