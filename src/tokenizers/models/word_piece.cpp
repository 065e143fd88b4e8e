// SPDX-License-Identifier: Apache-2.0
// WordPiece: repeatedly takes the longest token with which the rest of the word
// begins. If there is no such token, the whole word becomes the unknown token.
#include "base/str_cat.h"
#include "tokenizers/models/model.h"
#include "tokenizers/text/trie.h"

namespace transformers::tokenizers {
namespace {

class WordPiece : public Model {
 public:
  WordPiece(const JsonNode& node, Vocabulary vocabulary)
      : Model(std::move(vocabulary)),
        max_characters_(node.integer("max_input_chars_per_word", 100)) {
    if (max_characters_ < 0) {
      node.at("max_input_chars_per_word")
          .fail(accelerate::str_cat(
              "expected 0 or more, found ", max_characters_));
    }
    const std::string unk_token = node.string("unk_token", "[UNK]");
    const auto id = vocabulary_.find(unk_token);
    if (!id) {
      node.fail(accelerate::str_cat(
          "the `unk_token` `", unk_token, "` is not in the vocabulary"));
    }
    unk_id_ = *id;
    vocabulary_.for_each([&](std::string_view token, std::uint32_t token_id) {
      trie_.add(token, token_id);
    });
    continuation_root_ =
        trie_.walk(Trie::kRoot, node.string("continuing_subword_prefix", "##"));
  }

  std::string_view name() const override { return "WordPiece"; }

  void tokenize(std::string_view piece, TokenSink& sink) const override {
    const std::size_t before = sink.ids.size();
    const bool too_long =
        static_cast<std::int64_t>(piece.size()) > max_characters_ &&
        static_cast<std::int64_t>(count_characters(piece)) > max_characters_;
    std::size_t at = 0;
    while (!too_long && at < piece.size()) {
      std::uint32_t id = 0;
      const std::size_t size = longest_match(
          at == 0 ? Trie::kRoot : continuation_root_, piece.substr(at), id);
      if (size == 0) {
        break;
      }
      sink.add(id, at, at + size);
      at += size;
    }
    if (at < piece.size()) {
      sink.ids.resize(before);
      if (sink.spans != nullptr) {
        sink.spans->resize(before);
      }
      sink.add(unk_id_, 0, piece.size());
    }
  }

 private:
  std::size_t longest_match(
      std::uint32_t node, std::string_view rest, std::uint32_t& id) const {
    std::size_t size = 0;
    for (std::size_t i = 0; i < rest.size() && node != Trie::kNone; ++i) {
      node = trie_.child(node, static_cast<unsigned char>(rest[i]));
      if (node != Trie::kNone && trie_.value(node) != Trie::kNone) {
        id = trie_.value(node);
        size = i + 1;
      }
    }
    return size;
  }

  Trie trie_;
  std::uint32_t continuation_root_ = Trie::kNone;
  std::uint32_t unk_id_ = 0;
  std::int64_t max_characters_;
};

class WordLevel : public Model {
 public:
  WordLevel(const JsonNode& node, Vocabulary vocabulary)
      : Model(std::move(vocabulary)) {
    const std::string unk_token = node.string("unk_token");
    const auto id = vocabulary_.find(unk_token);
    if (!id) {
      node.fail(accelerate::str_cat(
          "the `unk_token` `", unk_token, "` is not in the vocabulary"));
    }
    unk_id_ = *id;
  }
  std::string_view name() const override { return "WordLevel"; }
  void tokenize(std::string_view piece, TokenSink& sink) const override {
    sink.add(vocabulary_.find(piece).value_or(unk_id_), 0, piece.size());
  }

 private:
  std::uint32_t unk_id_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(
    const JsonNode& node, const ModelText& text) {
  return std::make_unique<WordPiece>(
      node, read_vocabulary(text, node.source()));
}

std::unique_ptr<Model> make_word_level(
    const JsonNode& node, const ModelText& text) {
  return std::make_unique<WordLevel>(
      node, read_vocabulary(text, node.source()));
}

}  // namespace transformers::tokenizers
