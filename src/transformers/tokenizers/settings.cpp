// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/settings.h"

#include <algorithm>
#include <charconv>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/tokenizers/family.h"

namespace transformers::tokenizers {
namespace {

using accelerate::Json;
using accelerate::str_cat;

// Files write 1e30 where there is no limit.
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

// A token is a string, or an object with the string as `content`.
std::string token_text(const JsonNode& node) {
  return node.value().is_string() ? node.as_string() : node.string("content");
}

}  // namespace

const std::vector<std::string>& special_parts() {
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

bool Settings::takes(const std::string& input) const {
  return std::find(model_input_names.begin(), model_input_names.end(), input) !=
         model_input_names.end();
}

Settings read_settings(
    Json config, const std::string& source, const std::string& model_type) {
  Settings settings;
  settings.config = std::move(config);
  const JsonNode root(settings.config, source, "$");
  const Family& family = family_of(root.string("tokenizer_class", model_type));
  settings.padding_side = family.padding_side;
  settings.special_tokens = family.special_tokens;
  if (family.token_type_ids) {
    settings.model_input_names = {
        "input_ids", "token_type_ids", "attention_mask"};
  }
  if (const auto node = root.find("model_max_length")) {
    const double length = node->as_double();
    if (length < 1) {
      node->fail(str_cat(length, " is no length"));
    }
    if (length < kNoLimit) {
      settings.model_max_length = static_cast<std::int64_t>(length);
    }
  }
  if (const auto node = root.find("padding_side")) {
    settings.padding_side = read_side(*node);
  }
  if (const auto node = root.find("truncation_side")) {
    settings.truncation_side = read_side(*node);
  }
  settings.clean_up_tokenization_spaces =
      root.boolean("clean_up_tokenization_spaces", false);
  settings.pad_token_type_id = root.integer("pad_token_type_id", 0);
  if (root.boolean("split_special_tokens", false)) {
    root.at("split_special_tokens").fail("special tokens are never split here");
  }
  if (const auto node = root.find("model_input_names")) {
    settings.model_input_names.clear();
    for (const JsonNode& name : node->elements()) {
      settings.model_input_names.push_back(name.as_string());
    }
  }
  for (const std::string& part : special_parts()) {
    if (const auto node = root.find(part)) {
      settings.special_tokens[part] = token_text(*node);
    } else if (root.value().contains(part)) {
      settings.special_tokens.erase(part);  // Null: there is none.
    }
  }
  return settings;
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
      node.fail("expected an id as the key");
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

AddedToken special_token(const JsonNode& root, const std::string& part) {
  const auto node = root.find(part);
  AddedToken token;
  if (node && node->value().is_object()) {
    token = read_added_token(*node);
  }
  token.special = true;
  token.normalized = false;
  return token;
}

void add_special_tokens(
    const JsonNode& root, Settings& settings, Pipeline& pipeline) {
  for (const auto& [part, text] : settings.special_tokens) {
    const AddedToken* known = pipeline.added_tokens.find(text);
    if (known != nullptr && known->special) {
      continue;
    }
    AddedToken token = known != nullptr ? *known : special_token(root, part);
    token.content = text;
    token.special = true;
    pipeline.added_tokens.add(token, pipeline.model->vocabulary());
  }
  const auto more = root.find("additional_special_tokens");
  const auto extra = root.find("extra_special_tokens");
  for (const auto& list : {more, extra}) {
    if (!list || !list->value().is_array()) {
      continue;
    }
    for (const JsonNode& node : list->elements()) {
      AddedToken token =
          node.value().is_object() ? read_added_token(node) : AddedToken();
      token.content = token_text(node);
      token.special = true;
      token.normalized = false;
      settings.extra_special_tokens.push_back(token.content);
      if (pipeline.added_tokens.find(token.content) == nullptr) {
        pipeline.added_tokens.add(token, pipeline.model->vocabulary());
      }
    }
  }
}

// The families' own tokens count only where the vocabulary has them.
void drop_unknown_defaults(
    const JsonNode& root, Settings& settings, const Pipeline& pipeline) {
  std::erase_if(settings.special_tokens, [&](const auto& entry) {
    return !root.value().contains(entry.first) &&
           !pipeline.model->vocabulary().find(entry.second) &&
           pipeline.added_tokens.find(entry.second) == nullptr;
  });
}

// The pieces round one text: `add_bos_token` and `add_eos_token`.
Json edges_of(
    const JsonNode& root,
    const Settings& settings,
    const char* sequence,
    int type_id,
    Json pieces) {
  const auto add = [&](const char* flag, const char* part) {
    const auto token = settings.special_tokens.find(part);
    if (root.boolean(flag, false) && token != settings.special_tokens.end()) {
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

// Where there is no tokenizer.json to say which special tokens go where.
void apply_edges(
    const JsonNode& root, const Settings& settings, Pipeline& pipeline) {
  if (!root.find("add_bos_token") && !root.find("add_eos_token")) {
    return;
  }
  Json tokens = Json::object();
  for (const char* part : {"bos_token", "eos_token"}) {
    const auto token = settings.special_tokens.find(part);
    if (token != settings.special_tokens.end()) {
      const std::string& text = token->second;
      const std::uint32_t id = pipeline.added_tokens.find(text)->id;
      tokens[text] = Json::object(
          {{"id", text},
           {"ids", Json::array({id})},
           {"tokens", Json::array({text})}});
    }
  }
  const Json single = edges_of(root, settings, "A", 0, Json::array());
  Json& description = pipeline.description["post_processor"];
  description = Json::object(
      {{"type", "TemplateProcessing"},
       {"single", single},
       {"pair", edges_of(root, settings, "B", 1, single)},
       {"special_tokens", tokens}});
  pipeline.post_processor = make_post_processor(
      JsonNode(description, root.source(), "$.post_processor"));
}

void set_prefix_space(PreTokenizer* stage, bool value) {
  if (auto* level = dynamic_cast<ByteLevelPreTokenizer*>(stage)) {
    level->add_prefix_space = value;
  } else if (auto* all = dynamic_cast<PreTokenizerSequence*>(stage)) {
    for (const auto& part : all->parts) {
      set_prefix_space(part.get(), value);
    }
  }
}

}  // namespace

void apply_settings(
    Settings& settings, Pipeline& pipeline, bool has_tokenizer_json) {
  const JsonNode root(settings.config, "tokenizer_config.json", "$");
  add_listed_tokens(root, pipeline);
  drop_unknown_defaults(root, settings, pipeline);
  add_special_tokens(root, settings, pipeline);
  if (!has_tokenizer_json) {
    apply_edges(root, settings, pipeline);
  }
  if (const auto prefix = root.find("add_prefix_space")) {
    set_prefix_space(pipeline.pre_tokenizer.get(), prefix->as_bool());
  }
  pipeline.added_tokens.prepare(pipeline.normalizer.get());
}

}  // namespace transformers::tokenizers
