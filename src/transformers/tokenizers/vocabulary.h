// SPDX-License-Identifier: Apache-2.0
// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transformers::tokenizers {

/// Ids and the texts they stand for, in one block of memory.
class Vocabulary {
 public:
  /// Ids beyond this are refused: they index tables and have 24 bits there.
  static constexpr std::int64_t kMaxId = (1 << 24) - 2;

  void reserve(std::size_t tokens, std::size_t bytes);
  /// Returns whether the token was new. There may be `kMaxId` tokens.
  bool add(std::string_view token, std::uint32_t id);

  std::optional<std::uint32_t> find(std::string_view token) const;
  /// Finds each of `tokens`; `ids` is as long. Waits for memory once for all
  /// of them rather than for each, so it is quicker by half for many.
  void find_all(
      std::span<const std::string_view> tokens,
      std::span<std::optional<std::uint32_t>> ids) const;
  /// The text of an id, or nothing.
  std::optional<std::string_view> text(std::uint32_t id) const;
  std::size_t size() const { return entries_.size(); }
  /// One more than the largest id.
  std::uint32_t limit() const {
    return static_cast<std::uint32_t>(
        in_order_ ? entries_.size() : by_id_.size());
  }
  /// Calls `each(text, id)` in the order in which tokens were added.
  template <typename Each>
  void for_each(Each each) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      each(view(i), entries_[i].id);
    }
  }

 private:
  struct Entry {
    std::uint32_t begin;  // Of its text, which ends where the next begins.
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
  void fetch(std::span<const std::uint64_t> hashes) const;
  void leave_order();

  std::string texts_;
  std::vector<Entry> entries_;
  // Eight bits of a hash and 24 of one more than an index; 0 is free. Linear
  // probing, a quarter is free.
  std::vector<std::uint32_t> slots_;
  // As long as every id is its index, which is usual, there is no table of
  // ids. In it, too, stands one more than the index.
  bool in_order_ = true;
  std::vector<std::uint32_t> by_id_;
};

}  // namespace transformers::tokenizers
