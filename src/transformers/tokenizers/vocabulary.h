// SPDX-License-Identifier: Apache-2.0
// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace transformers::tokenizers {

/// Ids and the texts they stand for, in one block of memory.
class Vocabulary {
 public:
  /// Ids beyond this are refused: they index tables.
  static constexpr std::int64_t kMaxId = (1 << 24) - 1;

  void reserve(std::size_t tokens, std::size_t bytes);
  /// Returns whether the token was new.
  bool add(std::string_view token, std::uint32_t id);

  std::optional<std::uint32_t> find(std::string_view token) const;
  /// The text of an id, or nothing.
  std::optional<std::string_view> text(std::uint32_t id) const;
  std::size_t size() const { return entries_.size(); }
  /// One more than the largest id.
  std::uint32_t limit() const {
    return static_cast<std::uint32_t>(by_id_.size());
  }
  /// Calls `each(text, id)` in the order in which tokens were added.
  template <typename Each>
  void for_each(Each each) const {
    for (const Entry& entry : entries_) {
      each(view(entry), entry.id);
    }
  }

 private:
  struct Entry {
    std::uint32_t begin;
    std::uint32_t size;
    std::uint32_t id;
  };
  struct Slot {
    std::uint32_t hash;
    std::uint32_t entry;  // One more than the index; 0 is free.
  };
  std::string_view view(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.begin, entry.size);
  }
  void grow(std::size_t tokens);

  std::string texts_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> by_id_;  // One more than the index; 0 is none.
  std::vector<Slot> slots_;           // A power of two, linear probing.
};

}  // namespace transformers::tokenizers
