// SPDX-License-Identifier: Apache-2.0
// The second stage: a text into the pieces its model sees one at a time.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "transformers/tokenizers/aligned_text.h"
#include "transformers/tokenizers/json_node.h"
#include "transformers/tokenizers/scanners.h"

namespace transformers::tokenizers {

/// A text and the parts of it that are pieces, in order. What lies between
/// two pieces is gone for the model.
struct Pieces {
  AlignedText text;
  std::vector<Span> ranges;
  /// Whether the text is the beginning of the sentence; asked only when the
  /// text is not tracked.
  bool begins_sentence = false;

  std::string_view view(const Span& range) const {
    return std::string_view(text.text).substr(range.begin, range.size());
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Thread-safe.
  virtual void split(Pieces& pieces) const = 0;
};

/// GPT-2's: splits with its expression, then spells bytes.
class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix, bool use_regex)
      : add_prefix_space(prefix),
        scanner(use_regex ? Scanner::gpt2 : Scanner::none) {}
  void split(Pieces& pieces) const override;

  bool add_prefix_space;
  Scanner scanner;
  /// Unset by a pipeline whose model reads bytes as they are.
  bool spells = true;
};

class BertPreTokenizer : public PreTokenizer {
 public:
  void split(Pieces& pieces) const override;
};

/// `Split` where every piece is a match of a known expression.
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

/// Makes what the node describes. Throws `FormatError` naming the JSON path.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonNode& node);

std::unique_ptr<PreTokenizer> make_split(const JsonNode& node);
std::unique_ptr<PreTokenizer> make_metaspace(const JsonNode& node);

}  // namespace transformers::tokenizers
