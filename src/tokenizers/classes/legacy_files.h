// SPDX-License-Identifier: Apache-2.0
// Reads the vocabulary of a folder that has no tokenizer.json: vocab.txt, or
// vocab.json and merges.txt.
#pragma once

#include <filesystem>
#include <string>

#include "tokenizers/classes/tokenizer_class.h"
#include "tokenizers/models/model.h"

namespace transformers::tokenizers {

/// The maximum size of a tokenizer file.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

/// The JSON text of a vocabulary and its merges, in the format of
/// `$.model.vocab` and `$.model.merges` in tokenizer.json.
struct VocabularyText {
  std::string source;  // The file name for error messages.
  std::string vocab;
  std::string merges;

  ModelText model_text() const { return {vocab, merges}; }
};

/// Reads the files that a tokenizer class needs. Throws `IoError` when the
/// folder does not contain them.
VocabularyText read_vocabulary_files(
    const std::filesystem::path& folder, const TokenizerClass& kind);

}  // namespace transformers::tokenizers
