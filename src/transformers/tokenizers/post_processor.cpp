// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/post_processor.h"

#include "base/str_cat.h"
#include "transformers/tokenizers/vocabulary.h"

namespace transformers::tokenizers {
namespace {

using accelerate::str_cat;
using Kind = TemplatePiece::Kind;

std::uint32_t read_id(const JsonNode& node) {
  const std::int64_t id = node.as_integer();
  if (id < 0 || id > Vocabulary::kMaxId) {
    node.fail(
        str_cat("the id ", id, " is not in the range 0–", Vocabulary::kMaxId));
  }
  return static_cast<std::uint32_t>(id);
}

// `["[SEP]", 102]`
TemplatePiece read_token(const JsonNode& node, std::int64_t type_id) {
  const auto parts = node.elements();
  if (parts.size() != 2) {
    node.fail("expected a token and its id");
  }
  parts[0].as_string();
  return {Kind::special, type_id, {read_id(parts[1])}};
}

std::vector<std::uint32_t> special_ids(
    const JsonNode& node, const JsonNode& name) {
  const auto tokens = node.find("special_tokens");
  const auto token =
      tokens ? tokens->find(name.as_string()) : std::optional<JsonNode>();
  if (!token) {
    name.fail(str_cat("`", name.as_string(), "` is not in `special_tokens`"));
  }
  std::vector<std::uint32_t> ids;
  for (const JsonNode& id : token->at("ids").elements()) {
    ids.push_back(read_id(id));
  }
  return ids;
}

Template read_template(const JsonNode& node, std::string_view key) {
  Template pieces;
  for (const JsonNode& piece : node.at(key).elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      const std::string name = sequence->string("id");
      if (name != "A" && name != "B") {
        sequence->at("id").fail("expected `A` or `B`");
      }
      pieces.push_back(
          {name == "A" ? Kind::first : Kind::second,
           sequence->integer("type_id"),
           {}});
    } else {
      const JsonNode special = piece.at("SpecialToken");
      pieces.push_back(
          {Kind::special,
           special.integer("type_id"),
           special_ids(node, special.at("id"))});
    }
  }
  return pieces;
}

void apply_template(const JsonNode& node, PostProcessor& result) {
  result.single = read_template(node, "single");
  result.pair = read_template(node, "pair");
}

void apply_bert(const JsonNode& node, PostProcessor& result) {
  const JsonNode sep = node.at("sep");
  const JsonNode cls = node.at("cls");
  result.single = {
      read_token(cls, 0), {Kind::first, 0, {}}, read_token(sep, 0)};
  result.pair = result.single;
  result.pair.push_back({Kind::second, 1, {}});
  result.pair.push_back(read_token(sep, 1));
}

void apply_roberta(const JsonNode& node, PostProcessor& result) {
  const JsonNode sep = node.at("sep");
  result.single = {
      read_token(node.at("cls"), 0), {Kind::first, 0, {}}, read_token(sep, 0)};
  result.pair = result.single;
  result.pair.push_back(read_token(sep, 0));
  result.pair.push_back({Kind::second, 0, {}});
  result.pair.push_back(read_token(sep, 0));
  result.trim_offsets = node.boolean("trim_offsets", true);
  result.add_prefix_space = node.boolean("add_prefix_space", true);
}

void apply(const JsonNode& node, PostProcessor& result, bool& has_template) {
  const std::string type = node.type();
  if (type == "Sequence") {
    for (const JsonNode& part : node.at("processors").elements()) {
      apply(part, result, has_template);
    }
    return;
  }
  if (type == "ByteLevel") {
    result.trim_offsets = node.boolean("trim_offsets", true);
    result.add_prefix_space = node.boolean("add_prefix_space", true);
    return;
  }
  if (has_template) {
    node.fail("more than one processor inserts special tokens");
  }
  has_template = true;
  if (type == "TemplateProcessing") {
    apply_template(node, result);
  } else if (type == "BertProcessing") {
    apply_bert(node, result);
  } else if (type == "RobertaProcessing") {
    apply_roberta(node, result);
  } else {
    node.at("type").fail_unknown(
        "post-processor",
        type,
        {"BertProcessing",
         "ByteLevel",
         "RobertaProcessing",
         "Sequence",
         "TemplateProcessing"});
  }
}

}  // namespace

std::size_t PostProcessor::num_special_tokens_to_add(bool is_pair) const {
  std::size_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair : single) {
    count += piece.ids.size();
  }
  return count;
}

PostProcessor make_post_processor(const JsonNode& node) {
  PostProcessor result;
  bool has_template = false;
  apply(node, result, has_template);
  return result;
}

}  // namespace transformers::tokenizers
