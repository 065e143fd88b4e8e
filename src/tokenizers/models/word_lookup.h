// SPDX-License-Identifier: Apache-2.0
// Looks up the tokens of words in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tokenizers/engine.h"

namespace transformers::tokenizers {

// Appends ids to a vector that is enlarged in advance, so that appending a
// cached word takes one copy of fixed size.
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
// `tokenize_word` writes its ids to `workspace.scratch.ids`, and the ids are
// cached.
template <typename Table, typename Tokenize>
void look_up(
    Table& table,
    const typename Table::Key& key,
    std::uint64_t hash,
    Workspace& workspace,
    IdWriter& out,
    Tokenize tokenize_word) {
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

template <typename Table, typename Tokenize>
void look_up(
    Table& table,
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Tokenize tokenize_word) {
  const auto key = Table::key_of(word.data(), word.size(), end);
  look_up(table, key, Table::hash_of(key), workspace, out, tokenize_word);
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

// Appends the ids of pieces. The slots of a word are prefetched while earlier
// words are looked up, because for multilingual text, the word cache is larger
// than the processor's cache.
class PieceWriter {
 public:
  /// `end` is the end of the readable memory after all pieces.
  PieceWriter(
      const Model& model, const char* end, Workspace& workspace, IdWriter& out)
      : model_(model),
        end_(end),
        workspace_(workspace),
        out_(out),
        sink_{workspace.scratch.ids} {}

  void add(std::string_view piece) {
    // A long piece is rarely repeated, but its parts may be.
    while (piece.size() > kMaxLong) {
      const std::size_t size = model_.first_part(piece);
      push(piece.substr(0, size));
      piece.remove_prefix(size);
    }
    if (!piece.empty()) {
      push(piece);
    }
  }
  /// Appends the ids of all pieces added so far. Must be called after the last
  /// piece.
  void flush() {
    for (; first_ < last_; ++first_) {
      write(words_[first_ % kDepth]);
    }
  }

 private:
  static constexpr std::size_t kMaxShort = 24;
  static constexpr std::size_t kMaxLong = 64;
  static constexpr std::size_t kDepth = 8;

  struct Word {
    std::string_view text;
    ShortWords::Key key;  // The key of a short word.
    std::uint64_t hash;   // The hash of the word in its table.
  };

  void push(std::string_view text) {
    if (last_ - first_ == kDepth) {
      write(words_[first_++ % kDepth]);
    }
    Word& word = words_[last_++ % kDepth];
    word.text = text;
    if (text.size() <= kMaxShort) {
      word.key = ShortWords::key_of(text.data(), text.size(), end_);
      word.hash = ShortWords::hash_of(word.key);
      workspace_.short_words.prefetch(word.hash);
    } else if (text.size() <= kMaxLong) {
      word.hash = LongWords::hash_of(long_key(text));
      workspace_.long_words.prefetch(word.hash);
    }
  }
  void write(const Word& word) {
    const auto tokenize = [&] { model_.tokenize(word.text, sink_); };
    if (word.text.size() <= kMaxShort) {
      look_up(
          workspace_.short_words,
          word.key,
          word.hash,
          workspace_,
          out_,
          tokenize);
    } else if (word.text.size() <= kMaxLong) {
      look_up(
          workspace_.long_words,
          long_key(word.text),
          word.hash,
          workspace_,
          out_,
          tokenize);
    } else {
      workspace_.scratch.ids.clear();
      tokenize();
      out_.add(workspace_.scratch.ids);
    }
  }
  LongWords::Key long_key(std::string_view text) const {
    return LongWords::key_of(text.data(), text.size(), end_);
  }

  const Model& model_;
  const char* end_;
  Workspace& workspace_;
  IdWriter& out_;
  TokenSink sink_;
  std::array<Word, kDepth> words_;
  std::size_t first_ = 0;
  std::size_t last_ = 0;
};

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
/// nor ASCII punctuation marks. `plain_ascii` is true if the chunk contains
/// only ASCII characters other than control characters.
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
