// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/post_processor.h"

#include <limits>

#include "base/str_cat.h"
#include "tokenizers/models/vocabulary.h"

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

// Reads a token such as `["[SEP]", 102]`.
TemplatePiece read_token(const JsonNode& node, std::int64_t type_id) {
  const auto parts = node.elements();
  if (parts.size() != 2) {
    node.fail("expected a token and its id");
  }
  parts[0].as_string();
  return {Kind::special, type_id, {read_id(parts[1])}};
}

// Real templates have fewer than ten pieces of one token each. The limits
// protect against malicious files that would fill the memory.
constexpr std::size_t kMaxPieces = 1024;
constexpr std::size_t kMaxTemplateTokens = 65536;

std::int64_t read_type_id(const JsonNode& node) {
  const JsonNode type = node.at("type_id");
  const std::int64_t id = type.as_integer();
  if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) {
    type.fail(str_cat("the type id ", id, " is not in the range 0–4294967295"));
  }
  return id;
}

JsonNode special_ids(const JsonNode& node, const JsonNode& name) {
  const auto tokens = node.find("special_tokens");
  const auto token =
      tokens ? tokens->find(name.as_string()) : std::optional<JsonNode>();
  if (!token) {
    name.fail(str_cat("`", name.as_string(), "` is not in `special_tokens`"));
  }
  return token->at("ids");
}

// Reads a sequence in a template. Each text must appear once; a single text is
// `A`.
TemplatePiece read_sequence(
    const JsonNode& sequence, bool is_single, const Template& pieces) {
  const JsonNode id = sequence.at("id");
  const std::string& name = id.as_string();
  if (name != "A" && (name != "B" || is_single)) {
    id.fail(is_single ? "expected `A`" : "expected `A` or `B`");
  }
  const Kind kind = name == "A" ? Kind::first : Kind::second;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == kind) {
      id.fail(str_cat(
          "`", name, "` appears twice in the template; this is not supported"));
    }
  }
  return {kind, read_type_id(sequence), {}};
}

Template read_template(const JsonNode& node, std::string_view key) {
  const JsonNode list = node.at(key);
  if (list.value().size() > kMaxPieces) {
    list.fail(str_cat(
        "the template has ",
        list.value().size(),
        " pieces; at most ",
        kMaxPieces,
        " are supported"));
  }
  Template pieces;
  std::size_t num_tokens = 0;
  for (const JsonNode& piece : list.elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      pieces.push_back(read_sequence(*sequence, key == "single", pieces));
      continue;
    }
    const JsonNode special = piece.at("SpecialToken");
    const JsonNode ids = special_ids(node, special.at("id"));
    num_tokens += ids.value().size();
    if (num_tokens > kMaxTemplateTokens) {
      list.fail(str_cat(
          "the template inserts more than ",
          kMaxTemplateTokens,
          " special tokens"));
    }
    pieces.push_back({Kind::special, read_type_id(special), {}});
    for (const JsonNode& id : ids.elements()) {
      pieces.back().ids.push_back(read_id(id));
    }
  }
  return pieces;
}

class PostProcessorReader {
 public:
  PostProcessor read(const JsonNode& node) {
    apply(node);
    result_.trim_offsets = !result_.trims.empty();
    return std::move(result_);
  }

 private:
  void apply(const JsonNode& node) {
    const std::string type = node.type();
    if (type == "Sequence") {
      for (const JsonNode& part : node.at("processors").elements()) {
        apply(part);
      }
    } else if (type == "ByteLevel") {
      add_trim(node);
    } else {
      insert_special_tokens(node, type);
    }
  }

  void insert_special_tokens(const JsonNode& node, const std::string& type) {
    if (has_template_) {
      node.fail("more than one processor inserts special tokens");
    }
    has_template_ = true;
    if (type == "TemplateProcessing") {
      result_.single = read_template(node, "single");
      result_.pair = read_template(node, "pair");
    } else if (type == "BertProcessing") {
      apply_bert(node);
    } else if (type == "RobertaProcessing") {
      apply_roberta(node);
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

  void apply_bert(const JsonNode& node) {
    const JsonNode sep = node.at("sep");
    result_.single = {
        read_token(node.at("cls"), 0),
        {Kind::first, 0, {}},
        read_token(sep, 0)};
    result_.pair = result_.single;
    result_.pair.push_back({Kind::second, 1, {}});
    result_.pair.push_back(read_token(sep, 1));
    follows_special_token_[0] = true;
  }

  void apply_roberta(const JsonNode& node) {
    add_trim(node);
    const JsonNode sep = node.at("sep");
    result_.single = {
        read_token(node.at("cls"), 0),
        {Kind::first, 0, {}},
        read_token(sep, 0)};
    result_.pair = result_.single;
    result_.pair.push_back(read_token(sep, 0));
    result_.pair.push_back({Kind::second, 0, {}});
    result_.pair.push_back(read_token(sep, 0));
    result_.overflow_has_template_types = true;
    follows_special_token_[0] = follows_special_token_[1] = true;
  }

  void add_trim(const JsonNode& node) {
    if (node.boolean("trim_offsets", true)) {
      result_.trims.push_back(
          {node.boolean("add_prefix_space", true),
           {follows_special_token_[0], follows_special_token_[1]}});
    }
  }

  PostProcessor result_;
  bool has_template_ = false;
  // For each text, whether an earlier post-processor has put a special token
  // before the text. A template does not set this, because its pieces stay
  // separate until the end.
  bool follows_special_token_[2] = {false, false};
};

}  // namespace

std::size_t PostProcessor::num_special_tokens_to_add(bool is_pair) const {
  std::size_t count = 0;
  for (const TemplatePiece& piece : is_pair ? pair : single) {
    count += piece.ids.size();
  }
  return count;
}

PostProcessor make_post_processor(const JsonNode& node) {
  return PostProcessorReader().read(node);
}

}  // namespace transformers::tokenizers
