// SPDX-License-Identifier: Apache-2.0
// All stages of one tokenizer, as described by its file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "transformers/tokenizers/added_tokens.h"
#include "transformers/tokenizers/decoder.h"
#include "transformers/tokenizers/model.h"
#include "transformers/tokenizers/normalizer.h"
#include "transformers/tokenizers/post_processor.h"
#include "transformers/tokenizers/pre_tokenizer.h"

namespace transformers::tokenizers {

struct Pipeline {
  std::unique_ptr<Normalizer> normalizer;       // May be null.
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // May be null.
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  std::unique_ptr<Decoder> decoder;  // May be null.
  AddedTokens added_tokens;
  /// The content of tokenizer.json without `$.model.vocab` and
  /// `$.model.merges`; `model` returns these two.
  accelerate::Json description;
  /// Whether the model takes raw bytes instead of GPT-2's byte characters.
  bool model_reads_raw_bytes = false;
};

/// Creates the stages from the text of a tokenizer.json. `mapped` is true if
/// the text is a memory-mapped file. `source` is the file name for error
/// messages. Throws `FormatError` with the JSON path if the text is not valid.
Pipeline read_pipeline(
    std::string_view text, const std::string& source, bool mapped = false);

/// Creates the stages from a description and the JSON text of the model's large
/// parts.
Pipeline make_pipeline(
    accelerate::Json description,
    const ModelText& text,
    const std::string& source);

}  // namespace transformers::tokenizers
