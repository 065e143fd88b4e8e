// SPDX-License-Identifier: Apache-2.0
// Tokens of words by way of those that are remembered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "transformers/tokenizers/engine.h"

namespace transformers::tokenizers {

// Appends ids to a vector through a pointer, with room made in advance, so
// that a remembered word costs one copy of fixed size.
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

// The ids of a word: remembered, or made by `make`, which leaves them in
// `workspace.scratch.ids`, and remembered for the next time.
template <typename Table, typename Make>
void look_up(
    Table& table,
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Make make) {
  const auto key = Table::key_of(word.data(), word.size(), end);
  const std::uint64_t hash = Table::hash_of(key);
  if (const auto* slot = table.find(key, hash)) {
    out.add(slot->ids, slot->count);
    return;
  }
  workspace.scratch.ids.clear();
  make();
  const auto& ids = workspace.scratch.ids;
  if (ids.size() <= std::size(typename Table::Slot().ids)) {
    table.put(key, hash, ids.data(), ids.size());
  }
  out.add(ids);
}

template <typename Make>
void add_word(
    std::string_view word,
    const char* end,
    Workspace& workspace,
    IdWriter& out,
    Make make) {
  if (word.size() <= 24) {
    look_up(workspace.short_words, word, end, workspace, out, make);
  } else if (word.size() <= 64) {
    look_up(workspace.long_words, word, end, workspace, out, make);
  } else {
    workspace.scratch.ids.clear();
    make();
    out.add(workspace.scratch.ids);
  }
}

enum BertByte : std::uint8_t { kInWord, kGap, kMark, kSlow };

struct BertTable {
  std::uint8_t of[256];
  constexpr BertTable() : of() {
    for (int c = 0; c < 256; ++c) {
      const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9');
      const bool gap = c == ' ' || c == '\t' || c == '\n' || c == '\r';
      of[c] = word ? kInWord : gap ? kGap : c > ' ' && c < 127 ? kMark : kSlow;
    }
  }
};
inline constexpr BertTable kBert{};

/// Calls `each(from, to, plain)` for what lies between gaps: runs of other
/// characters, and ASCII marks one by one. Plain chunks are ASCII without
/// control characters.
template <typename Each>
void for_each_bert_chunk(std::string_view text, Each each) {
  const auto kind = [&](std::size_t i) {
    return kBert.of[static_cast<unsigned char>(text[i])];
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t from = at;
    std::uint8_t here = kind(at++);
    if (here == kGap) {
      continue;
    }
    std::uint8_t seen = here;
    while (here != kMark && at < text.size()) {
      here = kind(at);
      if (here == kGap || here == kMark) {
        break;
      }
      seen |= here;
      ++at;
    }
    each(from, at, seen != kSlow);
  }
}

}  // namespace transformers::tokenizers
