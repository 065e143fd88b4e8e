// SPDX-License-Identifier: Apache-2.0
// Added tokens, which are split off before the text reaches the other stages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokenizers/files/json_node.h"
#include "tokenizers/models/vocabulary.h"
#include "tokenizers/normalizers/normalizer.h"
#include "tokenizers/text/hashing.h"
#include "tokenizers/text/trie.h"

namespace transformers::tokenizers {

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = true;
  bool special = false;
  /// The text that decoding writes: `content`, normalized if `was_normalized`
  /// is true.
  std::string display = {};
  /// Whether a token with this text was ever added with `normalized` set. If
  /// so, decoding writes the normalized text, as in Hugging Face `tokenizers`.
  bool was_normalized = false;
};

/// Reads the fields of one token (`content`, `lstrip`, …), except its id.
AddedToken read_added_token(const JsonNode& node);

/// A part of a text: one added token, or plain text (`token` is null).
struct Segment {
  Span range;
  const AddedToken* token = nullptr;
};

/// Finds tokens in a text, from left to right. If several tokens match at the
/// same position, the finder returns the longest one.
class TokenFinder {
 public:
  /// Adds a token, which `find` reports by its `index`. If several tokens have
  /// the same text, only the one that was added first is found.
  void add(std::string_view text, std::size_t index);
  bool empty() const { return first_bytes_.empty(); }
  /// Calls `on_match(begin, end, index)` for non-overlapping matches.
  template <typename OnMatch>
  void find(std::string_view text, OnMatch on_match) const {
    for (std::size_t at = next(text, 0); at < text.size();) {
      std::size_t index = 0;
      const std::size_t size = longest_match(text.substr(at), index);
      if (size > 0) {
        on_match(at, at + size, index);
      }
      at = next(text, at + (size > 0 ? size : 1));
    }
  }

 private:
  std::size_t next(std::string_view text, std::size_t at) const;
  std::size_t longest_match(std::string_view text, std::size_t& index) const;

  Trie trie_;
  std::string first_bytes_;  // First bytes of all tokens.
  bool is_first_byte_[256] = {};
};

class AddedTokens {
 public:
  /// Adds a token, or replaces the token with the same text. Returns its id:
  /// the vocabulary's id for the text, or else the next free id. Throws
  /// `FormatError` when there are too many tokens.
  std::uint32_t add(AddedToken token, const Vocabulary& vocabulary);
  /// Prepares `split` and sets `AddedToken::display`. Must be called after the
  /// last `add`. `normalizer` may be null.
  void prepare(const Normalizer* normalizer);

  /// Splits a text at the added tokens that it contains. Looks only for tokens
  /// whose field `normalized` equals the argument `normalized`. The segments
  /// cover the whole text.
  void split(
      std::string_view text,
      bool normalized,
      std::vector<Segment>& segments) const;
  bool has_none(bool normalized) const {
    return (normalized ? after_normalization_ : before_normalization_).empty();
  }

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(std::uint32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }
  /// Returns whether decoding may skip a token with this text, because a
  /// special token with this text exists or existed.
  bool is_special(std::string_view text) const {
    return special_texts_.contains(text);
  }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return static_cast<std::size_t>(hash_bytes(text));
    }
  };

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>>
      by_content_;
  std::unordered_map<std::uint32_t, std::size_t> by_id_;
  std::unordered_set<std::string, TextHash, std::equal_to<>> special_texts_;
  std::uint32_t next_id_ = 0;  // The largest id of an added token plus one.
  TokenFinder before_normalization_;
  TokenFinder after_normalization_;
};

}  // namespace transformers::tokenizers
