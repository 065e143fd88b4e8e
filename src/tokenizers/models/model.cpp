// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/model.h"

#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/files/json_cursor.h"

namespace transformers::tokenizers {

using accelerate::str_cat;

accelerate::Json Model::vocab_json() const {
  accelerate::Json::Object entries;
  vocabulary_.for_each(
      [&](std::string_view token, std::uint32_t id) { entries[token] = id; });
  return entries;
}

std::string_view Model::token_text(
    std::uint32_t id, std::string_view, const Span&) const {
  return vocabulary_.text(id).value_or("");
}

Vocabulary read_vocabulary(const ModelText& parts, const std::string& source) {
  Vocabulary vocabulary;
  const std::string_view text = parts.vocab;
  vocabulary.reserve(parts.vocab_size, text.size() / 2);
  JsonCursor cursor(text, source, "$.model.vocab", parts.mapped);
  cursor.object([&](std::string_view token) {
    const std::int64_t id = cursor.integer();
    if (id < 0 || id > Vocabulary::kMaxId) {
      cursor.fail(str_cat(
          "the id ",
          id,
          " of `",
          accelerate::printable(token),
          "` is not in the range 0–",
          Vocabulary::kMaxId));
    }
    if (vocabulary.size() >= Vocabulary::kMaxId) {
      cursor.fail(
          str_cat("there are more than ", Vocabulary::kMaxId, " tokens"));
    }
    if (!vocabulary.add(token, static_cast<std::uint32_t>(id))) {
      cursor.fail(str_cat(
          "the token `", accelerate::printable(token), "` appears twice"));
    }
  });
  cursor.end();
  return vocabulary;
}

// Determines the type from the fields if the file is old and has no `type`.
std::string model_type_of(const JsonNode& node, const ModelText& text) {
  if (const auto type = node.find("type")) {
    return type->as_string();
  }
  if (!text.merges.empty()) {
    return "BPE";
  }
  if (!text.vocab.empty() && text.vocab.front() == '[') {
    return "Unigram";
  }
  return node.find("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<Model> make_model(const JsonNode& node, const ModelText& text) {
  const std::string type = model_type_of(node, text);
  if (text.vocab.empty()) {
    node.fail("the key `vocab` is missing");
  }
  if (type == "BPE") {
    return make_bpe(node, text);
  }
  if (type == "WordPiece") {
    return make_word_piece(node, text);
  }
  if (type == "WordLevel") {
    return make_word_level(node, text);
  }
  if (type == "Unigram") {
    return make_unigram(node, text);
  }
  node.at("type").fail_unknown(
      "model", type, {"BPE", "Unigram", "WordLevel", "WordPiece"});
}

}  // namespace transformers::tokenizers
