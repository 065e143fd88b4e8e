// SPDX-License-Identifier: Apache-2.0
// Looks up tokens by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transformers::tokenizers {

/// Token ids and their texts; all texts are in one block of memory.
class Vocabulary {
 public:
  /// The largest allowed id: tables store ids in 24 bits.
  static constexpr std::int64_t kMaxId = (1 << 24) - 2;

  void reserve(std::size_t tokens, std::size_t bytes);
  /// Adds a token. Returns whether the token was new. At most `kMaxId` tokens
  /// can be added.
  bool add(std::string_view token, std::uint32_t id);

  std::optional<std::uint32_t> find(std::string_view token) const;
  /// Finds the ids of all `tokens` and writes them to `ids`, which must have
  /// the same length. For a large batch, this takes half the time of single
  /// lookups, because memory is prefetched.
  void find_all(
      std::span<const std::string_view> tokens,
      std::span<std::optional<std::uint32_t>> ids) const;
  /// Returns the text of the token with this id, or nothing if there is none.
  std::optional<std::string_view> text(std::uint32_t id) const;
  std::size_t size() const { return entries_.size(); }
  /// Returns the largest id plus one.
  std::uint32_t limit() const {
    return static_cast<std::uint32_t>(
        ids_are_indices_ ? entries_.size() : by_id_.size());
  }
  /// Calls `each(text, id)` in insertion order.
  template <typename Each>
  void for_each(Each each) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      each(view(i), entries_[i].id);
    }
  }

 private:
  struct Entry {
    // Offset of the text, which ends where the next text begins.
    std::uint32_t begin;
    std::uint32_t id;
  };
  std::string_view view(std::size_t index) const {
    const std::size_t begin = entries_[index].begin;
    const std::size_t end =
        index + 1 < entries_.size() ? entries_[index + 1].begin : texts_.size();
    return {texts_.data() + begin, end - begin};
  }
  void make_slots(std::size_t tokens);
  static std::uint32_t slot_of(std::uint64_t hash, std::size_t index);
  std::size_t index_in(std::size_t slot) const {
    return (slots_[slot] & 0xFFFFFF) - 1;
  }
  std::size_t find_slot(std::string_view token, std::uint64_t hash) const;
  std::optional<std::uint32_t> find(
      std::string_view token, std::uint64_t hash) const;
  void prefetch(std::span<const std::uint64_t> hashes) const;
  void build_id_table();

  std::string texts_;
  std::vector<Entry> entries_;
  // A hash table with linear probing; at least a quarter of the slots are free.
  // A slot holds 8 bits of the hash (high byte) and the entry's index plus one
  // (low 24 bits). 0 marks a free slot.
  std::vector<std::uint32_t> slots_;
  // Whether every token's id equals its index in `entries_`, which is the usual
  // case. `by_id_` is then empty. If false, `by_id_[id]` is the token's index
  // plus one, or 0 if there is no token with this id.
  bool ids_are_indices_ = true;
  std::vector<std::uint32_t> by_id_;
};

}  // namespace transformers::tokenizers
