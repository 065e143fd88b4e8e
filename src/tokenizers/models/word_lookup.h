// SPDX-License-Identifier: Apache-2.0
// Looks up the tokens of words in the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tokenizers/engine.h"

namespace transformers::tokenizers {

// Appends ids to a vector that is enlarged in advance, so that a cached word
// costs one copy of fixed size.
class IdWriter {
 public:
  IdWriter(std::vector<std::uint32_t>& ids, std::size_t expected)
      : ids_(ids), size_(ids.size()) {
    ids_.resize(size_ + expected + kSlack);
  }
  ~IdWriter() { ids_.resize(size_); }
  IdWriter(const IdWriter&) = delete;
  IdWriter& operator=(const IdWriter&) = delete;

  std::size_t size() const { return size_; }
  std::uint32_t operator[](std::size_t i) const { return ids_[i]; }

  template <std::size_t MaxIds>
  void add(const std::uint32_t (&ids)[MaxIds], std::size_t count) {
    make_room();
    std::memcpy(ids_.data() + size_, ids, sizeof ids);
    size_ += count;
  }
  void add(const std::vector<std::uint32_t>& ids) {
    const std::size_t needed = size_ + ids.size() + kSlack;
    if (needed > ids_.size()) {
      ids_.resize(needed + ids_.size() / 2);
    }
    std::copy(ids.begin(), ids.end(), ids_.data() + size_);
    size_ += ids.size();
  }

 private:
  static constexpr std::size_t kSlack = 16;
  void make_room() {
    if (size_ + kSlack > ids_.size()) {
      ids_.resize(ids_.size() + ids_.size() / 2 + kSlack);
    }
  }
  std::vector<std::uint32_t>& ids_;
  std::size_t size_;
};

// Appends the ids of a word from the cache. If the word is not cached,
// `tokenize_word` writes its ids to `workspace.scratch.ids`, and they are
// cached.
template <typename Table, typename Tokenize>
void look_up(
    Table& table,
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Tokenize tokenize_word) {
  const auto key = Table::key_of(word.data(), word.size(), end);
  const std::uint64_t hash = Table::hash_of(key);
  if (const auto* slot = table.find(key, hash)) {
    out.add(slot->ids, slot->count);
    return;
  }
  workspace.scratch.ids.clear();
  tokenize_word();
  const auto& ids = workspace.scratch.ids;
  if (ids.size() <= std::size(typename Table::Slot().ids)) {
    table.put(key, hash, ids.data(), ids.size());
  }
  out.add(ids);
}

template <typename Tokenize>
void add_word(
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Tokenize tokenize_word) {
  if (word.size() <= 24) {
    look_up(workspace.short_words, word, end, workspace, out, tokenize_word);
  } else if (word.size() <= 64) {
    look_up(workspace.long_words, word, end, workspace, out, tokenize_word);
  } else {
    workspace.scratch.ids.clear();
    tokenize_word();
    out.add(workspace.scratch.ids);
  }
}

// Appends the ids of a piece. A long piece is rare as a whole, but its parts
// are often frequent.
inline void add_piece(
    const Model& model,
    std::string_view piece,
    const char* end,
    Workspace& workspace,
    IdWriter& out) {
  TokenSink sink{workspace.scratch.ids};
  constexpr std::size_t kLong = 64;
  while (!piece.empty()) {
    const std::size_t size =
        piece.size() > kLong ? model.first_part(piece) : piece.size();
    const std::string_view part = piece.substr(0, size);
    add_word(part, end, workspace, out, [&] { model.tokenize(part, sink); });
    piece.remove_prefix(size);
  }
}

enum BertByte : std::uint8_t {
  kInWord,
  kSeparator,
  kAsciiPunctuation,
  kSlowPath
};

struct BertTable {
  std::uint8_t of[256];
  constexpr BertTable() : of() {
    for (int c = 0; c < 256; ++c) {
      const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9');
      const bool separator = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      of[c] = word                 ? kInWord
              : separator          ? kSeparator
              : c > ' ' && c < 127 ? kAsciiPunctuation
                                   : kSlowPath;
    }
  }
};
inline constexpr BertTable kBert{};

/// Calls `each(from, to, plain_ascii)` for each chunk of a text. A chunk is one
/// ASCII punctuation mark, or a run of characters that are neither separators
/// nor ASCII punctuation marks. `plain_ascii` is true if the chunk has
/// neither control characters nor characters outside ASCII.
template <typename Each>
void for_each_bert_chunk(std::string_view text, Each each) {
  const auto kind = [&](std::size_t i) {
    return kBert.of[static_cast<unsigned char>(text[i])];
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    std::uint8_t here = kind(at++);
    if (here == kSeparator) {
      continue;
    }
    std::uint8_t seen = here;
    while (here != kAsciiPunctuation && at < text.size()) {
      here = kind(at);
      if (here == kSeparator || here == kAsciiPunctuation) {
        break;
      }
      seen |= here;
      ++at;
    }
    each(from, at, seen != kSlowPath);
  }
}

}  // namespace transformers::tokenizers
