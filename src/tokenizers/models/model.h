// SPDX-License-Identifier: Apache-2.0
// The third stage: converts a piece of the text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/files/json_node.h"
#include "tokenizers/models/vocabulary.h"
#include "tokenizers/text/aligned_text.h"

namespace transformers::tokenizers {

/// Receives the tokens that a model produces.
struct TokenSink {
  std::vector<std::uint32_t>& ids;
  /// The byte range that each token covers in the piece; null if not needed.
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

  /// Appends the tokens of a non-empty piece. Thread-safe.
  virtual void tokenize(std::string_view piece, TokenSink& sink) const = 0;
  /// Returns the length of a prefix of a non-empty piece such that the tokens
  /// of the piece are the tokens of the prefix followed by the tokens of the
  /// rest. The parts of a long piece can therefore be cached separately.
  /// Thread-safe.
  virtual std::size_t first_part(std::string_view piece) const {
    return piece.size();
  }
  /// Returns the name of the model type: "BPE", "WordPiece", …
  virtual std::string_view name() const = 0;
  /// Return the values of `$.model.vocab` and `$.model.merges` for saving the
  /// tokenizer. `merges_json` returns null for a model without merges.
  virtual accelerate::Json vocab_json() const;
  virtual accelerate::Json merges_json() const { return {}; }

  /// Returns the text of the token `id`, which `tokenize` produced for the
  /// range `part` of `piece`.
  virtual std::string_view token_text(
      std::uint32_t id, std::string_view piece, const Span& part) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

/// The JSON text of the parts of `$.model` that may be large.
struct ModelText {
  std::string_view vocab;
  std::string_view merges;
  bool mapped = false;         // Whether the text is mapped; see `JsonCursor`.
  std::size_t vocab_size = 0;  // Number of members or elements.
  std::size_t merges_size = 0;
};

/// Returns the type of the model that `$.model` describes: "BPE", …
std::string model_type_of(const JsonNode& node, const ModelText& text);

/// Creates the model that `$.model` describes. `node` contains neither `vocab`
/// nor `merges`; both are read from `text`. Throws `FormatError` with the JSON
/// path if the description is not valid.
std::unique_ptr<Model> make_model(const JsonNode& node, const ModelText& text);

std::unique_ptr<Model> make_bpe(const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_word_piece(
    const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_word_level(
    const JsonNode& node, const ModelText& text);
std::unique_ptr<Model> make_unigram(
    const JsonNode& node, const ModelText& text);

/// Returns the id of a token in the vocabulary of a Unigram model, `[["token",
/// score], …]`, or nothing if there is no such token. If `score` is set, the
/// token must have this score.
std::optional<std::uint32_t> find_in_unigram_vocabulary(
    const ModelText& text,
    const std::string& source,
    std::string_view token,
    std::optional<double> score);

/// Reads a vocabulary in the form `{"token": id, …}`.
Vocabulary read_vocabulary(const ModelText& text, const std::string& source);

}  // namespace transformers::tokenizers
