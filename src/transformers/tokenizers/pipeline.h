// SPDX-License-Identifier: Apache-2.0
// All stages of one tokenizer, as its file describes them.
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
  /// The file without `$.model.vocab` and `$.model.merges`, which the model
  /// can write.
  accelerate::Json description;
  /// Set when the model reads bytes as they are instead of their spelling.
  bool reads_bytes = false;
};

/// Reads the text of a tokenizer.json, which may be the pages of a file.
/// `source` is what errors name. Throws `FormatError` with the JSON path.
Pipeline read_pipeline(
    std::string_view text, const std::string& source, bool mapped = false);

/// Makes the stages from a description and the two large parts.
Pipeline make_pipeline(
    accelerate::Json description,
    const ModelText& text,
    const std::string& source);

}  // namespace transformers::tokenizers
