// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE model: which two tokens become one token, and the rank of
// each merge.
#pragma once

#include <bit>
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

  explicit MergeTable(std::size_t merges = 0)
      : slots_(slots_for(merges)), filter_(filter_words(slots_.size())) {}

  /// Sets the merge of a pair; replaces an earlier merge of the same pair. The
  /// ids must be less than 2^24, and the rank must not exceed `kMaxRank`.
  void set(std::uint32_t left, std::uint32_t right, const Merge& merge) {
    if (!has_room(slots_.size(), ++used_)) {
      grow();
    }
    const std::uint64_t key = key_of(left, right);
    const std::uint64_t hash = hash_of(key);
    find_slot(key, hash) = Slot(key, key_of(merge.rank, merge.id));
    filter_word(hash) |= filter_bit(hash);
  }
  Merge find(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = key_of(left, right);
    const std::uint64_t hash = hash_of(key);
    auto& table = const_cast<MergeTable&>(*this);
    if ((table.filter_word(hash) & filter_bit(hash)) == 0) {
      return {};
    }
    const Slot& slot = table.find_slot(key, hash);
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

  // Packs two 48-bit numbers: the pair of ids and the merge.
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
  // Returns a power of two, because there are at least eight slots.
  static std::size_t filter_words(std::size_t slots) {
    return std::bit_ceil(slots * 8) / 64;
  }
  static std::uint64_t filter_bit(std::uint64_t hash) {
    return std::uint64_t{1} << (hash & 63);
  }
  // Uses the low bits of the hash, because `first_slot` uses the high bits.
  std::uint64_t& filter_word(std::uint64_t hash) {
    return filter_[(hash >> 6) & (filter_.size() - 1)];
  }
  Slot& find_slot(std::uint64_t key, std::uint64_t hash) {
    std::size_t at = first_slot(hash, slots_.size());
    while (!slots_[at].is_free() && slots_[at].key() != key) {
      at = next_slot(at, slots_.size());
    }
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    filter_.assign(filter_words(slots_.size()), 0);
    for (const Slot& slot : old) {
      if (!slot.is_free()) {
        const std::uint64_t hash = hash_of(slot.key());
        find_slot(slot.key(), hash) = slot;
        filter_word(hash) |= filter_bit(hash);
      }
    }
  }

  std::vector<Slot> slots_;
  // A Bloom filter with one bit for each merge. Most pairs have no merge, and
  // their bit is usually clear, which avoids a search through the slots.
  std::vector<std::uint64_t> filter_;
  std::size_t used_ = 0;
};

}  // namespace transformers::tokenizers
