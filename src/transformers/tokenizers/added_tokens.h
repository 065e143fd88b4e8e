// SPDX-License-Identifier: Apache-2.0
// Tokens that are cut out of a text before anything else looks at it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transformers/tokenizers/json_node.h"
#include "transformers/tokenizers/normalizer.h"
#include "transformers/tokenizers/trie.h"
#include "transformers/tokenizers/vocabulary.h"

namespace transformers::tokenizers {

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = true;
  bool special = false;
  /// What decoding writes: the content, normalized where `normalized` is.
  std::string display = {};

  /// Whether decoding may skip it, which goes by what it would write.
  bool skipped() const { return special && display == content; }
  bool operator==(const AddedToken&) const = default;
};

/// Reads `content`, `lstrip`, … of one token; the id is left out.
AddedToken read_added_token(const JsonNode& node);

/// A stretch of text: an added token's, or plain.
struct Cut {
  Span range;
  const AddedToken* token = nullptr;
};

/// Finds the longest of many tokens at the leftmost place, again and again.
class TokenFinder {
 public:
  void add(std::string_view text, std::size_t index);
  bool empty() const { return firsts_.empty(); }
  /// Calls `found(begin, end, index)` for matches that do not overlap.
  template <typename Found>
  void find(std::string_view text, Found found) const {
    for (std::size_t at = next(text, 0); at < text.size();) {
      std::size_t index = 0;
      const std::size_t size = longest(text.substr(at), index);
      if (size > 0) {
        found(at, at + size, index);
      }
      at = next(text, at + (size > 0 ? size : 1));
    }
  }

 private:
  std::size_t next(std::string_view text, std::size_t at) const;
  std::size_t longest(std::string_view text, std::size_t& index) const;

  Trie trie_;
  std::string firsts_;  // The bytes that tokens begin with.
  bool is_first_[256] = {};
};

class AddedTokens {
 public:
  /// Adds a token, or replaces the one of the same text; gives it the id of
  /// the vocabulary's token of that text, or the next free one. Returns it.
  std::uint32_t add(AddedToken token, const Vocabulary& vocabulary);
  /// Must follow the last `add`.
  void prepare(const Normalizer* normalizer);

  /// Cuts a text at the tokens that are looked for before normalization, or
  /// after it. The cuts cover the text.
  void cut(
      std::string_view text, bool normalized, std::vector<Cut>& cuts) const;
  bool none(bool normalized) const {
    return (normalized ? after_ : before_).empty();
  }

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(std::uint32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;
  std::unordered_map<std::uint32_t, std::size_t> by_id_;
  TokenFinder before_;
  TokenFinder after_;
};

}  // namespace transformers::tokenizers
