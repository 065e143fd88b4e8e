// SPDX-License-Identifier: Apache-2.0
// All stages of one tokenizer, as described by its file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tokenizers/added_tokens.h"
#include "tokenizers/decoder.h"
#include "tokenizers/models/model.h"
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "transformers/tokenizer_options.h"

namespace transformers::tokenizers {

struct Pipeline {
  std::unique_ptr<Normalizer> normalizer;       // May be null.
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // May be null.
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;  // May be null.
  AddedTokens added_tokens;
  /// The content of tokenizer.json without `$.model.vocab` and
  /// `$.model.merges`, which `Model::vocab_json` and `Model::merges_json`
  /// return.
  accelerate::Json description;
  /// Whether the model takes raw bytes instead of GPT-2's byte characters.
  bool model_reads_raw_bytes = false;
};

/// The text of a tokenizer.json, split into a description and the large parts
/// of the model.
struct TokenizerJson {
  accelerate::Json description = accelerate::Json::object();
  ModelText model;
};

/// Splits the text of a tokenizer.json. `mapped` is true if the text is a
/// memory-mapped file. `source` is the file name for error messages. Throws
/// `FormatError` when the text is not valid JSON or has an unsupported version.
TokenizerJson split_tokenizer_json(
    std::string_view text, const std::string& source, bool mapped = false);

/// The settings in a tokenizer.json that are defaults for the options of a call
/// to the tokenizer.
struct SavedCallSettings {
  std::optional<Side> truncation_side;
  std::optional<Side> padding_side;
  std::optional<std::string> pad_token;
};

/// Reads `$.truncation` and `$.padding` of a tokenizer.json. Throws
/// `FormatError` with the JSON path if they are not valid.
SavedCallSettings read_call_settings(const JsonNode& root);

/// Creates the stages from the text of a tokenizer.json: calls
/// `split_tokenizer_json`, then `make_pipeline`.
Pipeline read_pipeline(
    std::string_view text, const std::string& source, bool mapped = false);

/// Creates the stages from a description and the JSON text of the model's large
/// parts. Throws `FormatError` with the JSON path if the description is not
/// valid.
Pipeline make_pipeline(
    accelerate::Json description,
    const ModelText& text,
    const std::string& source);

}  // namespace transformers::tokenizers
