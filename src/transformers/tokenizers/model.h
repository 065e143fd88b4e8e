// SPDX-License-Identifier: Apache-2.0
// The third stage: a piece into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transformers/tokenizers/aligned_text.h"
#include "transformers/tokenizers/json_node.h"
#include "transformers/tokenizers/vocabulary.h"

namespace transformers::tokenizers {

/// Where a model puts its tokens.
struct TokenSink {
  std::vector<std::uint32_t>& ids;
  /// The bytes of the piece that each token stands for; null when nobody asks.
  std::vector<Span>* spans = nullptr;

  void add(std::uint32_t id, std::size_t begin, std::size_t end) {
    ids.push_back(id);
    if (spans != nullptr) {
      spans->push_back(
          {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
    }
  }
};

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;

  /// Appends the tokens of a piece that is not empty. Thread-safe.
  virtual void tokenize(std::string_view piece, TokenSink& sink) const = 0;
  /// "BPE", "WordPiece", …
  virtual std::string_view name() const = 0;
  /// `$.model.vocab` and, where there is one, `$.model.merges`.
  virtual accelerate::Json vocab_json() const;
  virtual accelerate::Json merges_json() const { return {}; }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

/// The text of the parts of `$.model` that may be large.
struct ModelText {
  std::string_view vocab;
  std::string_view merges;
  bool mapped = false;         // See `JsonCursor`.
  std::size_t vocab_size = 0;  // Members or elements of each, as counted.
  std::size_t merges_size = 0;
};

/// Makes what `$.model` describes; `node` lacks `vocab` and `merges`, which
/// are read from their text. Throws `FormatError` naming the JSON path.
std::unique_ptr<Model> make_model(const JsonNode& node, const ModelText& text);

std::unique_ptr<Model> make_bpe(const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_word_piece(
    const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_word_level(
    const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_unigram(
    const JsonNode& node, const ModelText& text);

/// `{"token": id, …}`.
Vocabulary read_vocabulary(const ModelText& text, const std::string& source);

}  // namespace transformers::tokenizers
