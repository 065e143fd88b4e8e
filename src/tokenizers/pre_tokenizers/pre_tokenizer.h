// SPDX-License-Identifier: Apache-2.0
// The second stage: splits a text into pieces, which the model tokenizes one
// at a time.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tokenizers/files/json_node.h"
#include "tokenizers/pre_tokenizers/scanners.h"
#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

/// A text and the ranges of its pieces, in order. The text between two pieces
/// is not passed to the model.
struct Pieces {
  AlignedText text;
  std::vector<Span> ranges;
  /// Whether `text` is the beginning of the sentence (see `AlignedText`); used
  /// only if `text.tracked` is false.
  bool begins_sentence = false;

  std::string_view view(const Span& range) const {
    return std::string_view(text.text).substr(range.begin, range.size());
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Splits the pieces further, in place. Thread-safe.
  virtual void split(Pieces& pieces) const = 0;
};

/// GPT-2's pre-tokenizer: splits the text with GPT-2's regular expression, then
/// maps bytes to characters.
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix, bool use_regex)
      : add_prefix_space(prefix),
        scanner(use_regex ? Scanner::gpt2 : Scanner::none) {}
  void split(Pieces& pieces) const override;

  bool add_prefix_space;
  Scanner scanner;
  /// Whether bytes are mapped to characters. Must be false in a pipeline whose
  /// model takes raw bytes.
  bool maps_bytes = true;
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override;
};

/// A `Split` whose pieces are the matches of a regular expression that has a
/// hand-written scanner.
class ScannerSplit : public PreTokenizer {
 public:
  explicit ScannerSplit(Scanner which) : scanner(which) {}
  void split(Pieces& pieces) const override;

  Scanner scanner;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override;

  std::vector<std::unique_ptr<PreTokenizer>> parts;
};

/// Creates the pre-tokenizer that the node describes. Throws `FormatError` with
/// the JSON path if the node is not valid.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonNode& node);

std::unique_ptr<PreTokenizer> make_split(const JsonNode& node);
std::unique_ptr<PreTokenizer> make_metaspace(const JsonNode& node);

}  // namespace transformers::tokenizers
