// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE model: which two tokens become one token, and the rank of
// each merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizers/text/hashing.h"

namespace transformers::tokenizers {

struct Merge {
  std::uint32_t rank = kNoRank;
  std::uint32_t id = 0;

  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  bool exists() const { return rank != kNoRank; }
};

/// Maps pairs of token ids to merges. Ids and ranks have 24 bits, so an entry
/// takes 12 bytes.
class MergeTable {
 public:
  /// The largest possible rank. The next number, `2^24 - 1`, marks a free slot.
  static constexpr std::uint32_t kMaxRank = (1 << 24) - 2;

  explicit MergeTable(std::size_t merges = 0) : slots_(slots_for(merges)) {}

  /// Sets the merge of a pair, replacing an earlier merge of the same pair. The
  /// ids must be less than 2^24, and the rank must not exceed `kMaxRank`.
  void set(std::uint32_t left, std::uint32_t right, const Merge& merge) {
    if (!has_room(slots_.size(), ++used_)) {
      grow();
    }
    const std::uint64_t key = key_of(left, right);
    find_slot(key) = Slot(key, key_of(merge.rank, merge.id));
  }
  Merge find(std::uint32_t left, std::uint32_t right) const {
    const Slot& slot =
        const_cast<MergeTable*>(this)->find_slot(key_of(left, right));
    return slot.is_free() ? Merge{} : merge_of(slot);
  }
  /// Prefetches the slot of a pair for a later `set` or `find`.
  void prefetch(std::uint32_t left, std::uint32_t right) const {
    __builtin_prefetch(
        &slots_[first_slot(hash_of(key_of(left, right)), slots_.size())]);
  }
  /// Calls `each(left, right, merge)` in no particular order.
  template <typename Each>
  void for_each(Each each) const {
    for (const Slot& slot : slots_) {
      if (!slot.is_free()) {
        each(high(slot.key()), low(slot.key()), merge_of(slot));
      }
    }
  }

 private:
  static constexpr std::uint64_t kFree = (std::uint64_t{1} << 48) - 1;

  // Two 48-bit numbers.
  struct Slot {
    Slot() : Slot(0, kFree) {}
    Slot(std::uint64_t key, std::uint64_t value)
        : words{
              static_cast<std::uint32_t>(key),
              static_cast<std::uint32_t>(key >> 32 | value << 16),
              static_cast<std::uint32_t>(value >> 16)} {}
    std::uint64_t key() const {
      return std::uint64_t{words[1] & 0xFFFF} << 32 | words[0];
    }
    std::uint64_t value() const {
      return std::uint64_t{words[2]} << 16 | words[1] >> 16;
    }
    bool is_free() const { return value() == kFree; }

    std::uint32_t words[3];
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 24 | right;
  }
  static std::uint64_t hash_of(std::uint64_t key) {
    return mix(key ^ kHashSeed, 0x9E3779B97F4A7C15ull);
  }
  static std::uint32_t high(std::uint64_t key) {
    return static_cast<std::uint32_t>(key >> 24);
  }
  static std::uint32_t low(std::uint64_t key) {
    return static_cast<std::uint32_t>(key) & 0xFFFFFF;
  }
  static Merge merge_of(const Slot& slot) {
    return {high(slot.value()), low(slot.value())};
  }
  Slot& find_slot(std::uint64_t key) {
    std::size_t at = first_slot(hash_of(key), slots_.size());
    while (!slots_[at].is_free() && slots_[at].key() != key) {
      at = next_slot(at, slots_.size());
    }
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (!slot.is_free()) {
        find_slot(slot.key()) = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace transformers::tokenizers
