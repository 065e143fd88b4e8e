// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/pipeline.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "tokenizers/files/json_cursor.h"
#include "tokenizers/models/bpe.h"

namespace transformers::tokenizers {

using accelerate::Json;
using accelerate::str_cat;

namespace {

// Larger than the nesting depth of any published tokenizer file.
constexpr std::size_t kMaxDepth = 64;

Json parse_section(
    std::string_view text, const std::string& source, std::string_view path) {
  return Json::parse(
      text, {.source = str_cat(source, ": ", path), .max_depth = kMaxDepth});
}

void insert_unique(
    JsonCursor& cursor, Json& object, std::string_view key, Json value) {
  if (object.contains(key)) {
    cursor.fail(str_cat("the key `", key, "` appears twice"));
  }
  object[key] = std::move(value);
}

Json read_model(
    JsonCursor& cursor, const std::string& source, ModelText& parts) {
  Json model = Json::object();
  cursor.set_path("$.model");
  cursor.object([&](std::string_view key) {
    const std::string name(key);
    const std::string_view text = cursor.skip();
    std::string_view& section = name == "vocab" ? parts.vocab : parts.merges;
    if (name != "vocab" && name != "merges") {
      insert_unique(
          cursor,
          model,
          name,
          parse_section(text, source, str_cat("$.model.", name)));
    } else if (!section.empty()) {
      cursor.fail(str_cat("the key `", name, "` appears twice"));
    } else {
      section = text;
      (name == "vocab" ? parts.vocab_size : parts.merges_size) =
          cursor.skipped_elements();
    }
  });
  cursor.set_path("$");
  return model;
}

void check_version(const JsonNode& root) {
  if (!root.value().contains("version")) {
    return;
  }
  const JsonNode version = root.at("version");
  if (version.as_string() != "1.0") {
    version.fail_unknown("version", version.as_string(), {"1.0"});
  }
}

Side read_direction(const JsonNode& node) {
  const std::string& name = node.as_string();
  if (name != "Left" && name != "Right") {
    node.fail_unknown("direction", name, {"Left", "Right"});
  }
  return name == "Left" ? Side::left : Side::right;
}

void check_count(const JsonNode& node) {
  const std::int64_t count = node.as_integer();
  if (count < 0) {
    node.fail(str_cat("expected 0 or more, found ", count));
  }
}

// Returns the last stage before the model if it maps bytes to characters.
ByteLevelPreTokenizer* byte_level_stage(PreTokenizer* stage) {
  if (auto* sequence = dynamic_cast<PreTokenizerSequence*>(stage)) {
    return sequence->parts.empty()
               ? nullptr
               : byte_level_stage(sequence->parts.back().get());
  }
  return dynamic_cast<ByteLevelPreTokenizer*>(stage);
}

// Looking up raw bytes gives the same tokens as looking up GPT-2's characters
// for the bytes, and is faster.
void use_raw_bytes(Pipeline& pipeline) {
  auto* stage = byte_level_stage(pipeline.pre_tokenizer.get());
  auto* bpe = dynamic_cast<Bpe*>(pipeline.model.get());
  if (stage != nullptr && bpe != nullptr && bpe->use_raw_bytes()) {
    stage->maps_bytes = false;
    pipeline.model_reads_raw_bytes = true;
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

TokenizerJson split_tokenizer_json(
    std::string_view text, const std::string& source, bool mapped) {
  TokenizerJson result;
  result.model.mapped = mapped;
  JsonCursor cursor(text, source, "$", mapped);
  cursor.object([&](std::string_view key) {
    const std::string name(key);
    Json value =
        name == "model" && cursor.peek() == '{'
            ? read_model(cursor, source, result.model)
            : parse_section(cursor.skip(), source, str_cat("$.", name));
    insert_unique(cursor, result.description, name, std::move(value));
  });
  cursor.end();
  check_version(JsonNode(result.description, source, "$"));
  return result;
}

SavedCallSettings read_call_settings(const JsonNode& root) {
  SavedCallSettings settings;
  if (const auto truncation = root.find("truncation")) {
    const std::string strategy = truncation->string("strategy");
    if (strategy != "LongestFirst" && strategy != "OnlyFirst" &&
        strategy != "OnlySecond") {
      truncation->at("strategy")
          .fail_unknown(
              "truncation strategy",
              strategy,
              {"LongestFirst", "OnlyFirst", "OnlySecond"});
    }
    check_count(truncation->at("max_length"));
    check_count(truncation->at("stride"));
    settings.truncation_side = Side::right;
    if (const auto direction = truncation->find("direction")) {
      settings.truncation_side = read_direction(*direction);
    }
  }
  if (const auto padding = root.find("padding")) {
    const JsonNode strategy = padding->at("strategy");
    if (strategy.value().is_object()) {
      check_count(strategy.at("Fixed"));
    } else if (strategy.as_string() != "BatchLongest") {
      strategy.fail_unknown(
          "padding strategy",
          strategy.as_string(),
          {"BatchLongest", R"({"Fixed": <length>})"});
    }
    if (const auto multiple = padding->find("pad_to_multiple_of")) {
      check_count(*multiple);
    }
    check_count(padding->at("pad_id"));
    check_count(padding->at("pad_type_id"));
    settings.padding_side = read_direction(padding->at("direction"));
    settings.pad_token = padding->string("pad_token");
  }
  return settings;
}

Pipeline make_pipeline(
    Json description, const ModelText& text, const std::string& source) {
  Pipeline pipeline;
  pipeline.description = std::move(description);
  const JsonNode root(pipeline.description, source, "$");
  (void)read_call_settings(root);
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
  use_raw_bytes(pipeline);
  add_tokens(pipeline, root);
  return pipeline;
}

Pipeline read_pipeline(
    std::string_view text, const std::string& source, bool mapped) {
  TokenizerJson parts = split_tokenizer_json(text, source, mapped);
  return make_pipeline(std::move(parts.description), parts.model, source);
}

}  // namespace transformers::tokenizers
