// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/pipeline.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "transformers/tokenizers/bpe.h"
#include "transformers/tokenizers/json_cursor.h"

namespace transformers::tokenizers {

using accelerate::Json;
using accelerate::str_cat;

namespace {

// A file that nests deeper is no tokenizer.
constexpr std::size_t kMaxDepth = 64;

struct Parts {
  Json description = Json::object();
  std::string_view vocab;
  std::string_view merges;
  std::size_t vocab_size = 0;
  std::size_t merges_size = 0;
};

Json parse_part(
    std::string_view text, const std::string& source, std::string_view path) {
  return Json::parse(
      text, {.source = str_cat(source, ": ", path), .max_depth = kMaxDepth});
}

void put_new(
    JsonCursor& cursor, Json& object, std::string_view key, Json value) {
  if (object.contains(key)) {
    cursor.fail(str_cat("the key `", key, "` appears twice"));
  }
  object[key] = std::move(value);
}

Json read_model(JsonCursor& cursor, const std::string& source, Parts& parts) {
  Json model = Json::object();
  cursor.set_path("$.model");
  cursor.object([&](std::string_view key) {
    const std::string name(key);
    const std::string_view text = cursor.skip();
    std::string_view& large = name == "vocab" ? parts.vocab : parts.merges;
    if (name != "vocab" && name != "merges") {
      put_new(
          cursor,
          model,
          name,
          parse_part(text, source, str_cat("$.model.", name)));
    } else if (!large.empty()) {
      cursor.fail(str_cat("the key `", name, "` appears twice"));
    } else {
      large = text;
      (name == "vocab" ? parts.vocab_size : parts.merges_size) =
          cursor.skipped_elements();
    }
  });
  cursor.set_path("$");
  return model;
}

Parts take_apart(
    std::string_view text, const std::string& source, bool mapped) {
  Parts parts;
  JsonCursor cursor(text, source, "$", mapped);
  cursor.object([&](std::string_view key) {
    const std::string name(key);
    Json value = name == "model" && cursor.peek() == '{'
                     ? read_model(cursor, source, parts)
                     : parse_part(cursor.skip(), source, str_cat("$.", name));
    put_new(cursor, parts.description, name, std::move(value));
  });
  cursor.end();
  return parts;
}

// The last stage before the model, if it spells bytes.
ByteLevelPreTokenizer* spelling_stage(PreTokenizer* stage) {
  if (auto* sequence = dynamic_cast<PreTokenizerSequence*>(stage)) {
    return sequence->parts.empty()
               ? nullptr
               : spelling_stage(sequence->parts.back().get());
  }
  return dynamic_cast<ByteLevelPreTokenizer*>(stage);
}

// Spelling bytes as characters and looking those up is the same as looking
// the bytes up, and slower.
void let_model_read_bytes(Pipeline& pipeline) {
  auto* stage = spelling_stage(pipeline.pre_tokenizer.get());
  auto* bpe = dynamic_cast<Bpe*>(pipeline.model.get());
  if (stage != nullptr && bpe != nullptr && bpe->read_bytes()) {
    stage->spells = false;
    pipeline.reads_bytes = true;
  }
}

void add_tokens(Pipeline& pipeline, const JsonNode& root) {
  const auto tokens = root.find("added_tokens");
  if (tokens) {
    for (const JsonNode& node : tokens->elements()) {
      pipeline.added_tokens.add(
          read_added_token(node), pipeline.model->vocabulary());
    }
  }
  pipeline.added_tokens.prepare(pipeline.normalizer.get());
}

}  // namespace

Pipeline make_pipeline(
    Json description, const ModelText& text, const std::string& source) {
  Pipeline pipeline;
  pipeline.description = std::move(description);
  const JsonNode root(pipeline.description, source, "$");
  if (const auto node = root.find("normalizer")) {
    pipeline.normalizer = make_normalizer(*node);
  }
  if (const auto node = root.find("pre_tokenizer")) {
    pipeline.pre_tokenizer = make_pre_tokenizer(*node);
  }
  if (const auto node = root.find("post_processor")) {
    pipeline.post_processor = make_post_processor(*node);
  }
  if (const auto node = root.find("decoder")) {
    pipeline.decoder = make_decoder(*node);
  }
  pipeline.model = make_model(root.at("model"), text);
  let_model_read_bytes(pipeline);
  add_tokens(pipeline, root);
  return pipeline;
}

Pipeline read_pipeline(
    std::string_view text, const std::string& source, bool mapped) {
  Parts parts = take_apart(text, source, mapped);
  return make_pipeline(
      std::move(parts.description),
      {parts.vocab, parts.merges, mapped, parts.vocab_size, parts.merges_size},
      source);
}

}  // namespace transformers::tokenizers
