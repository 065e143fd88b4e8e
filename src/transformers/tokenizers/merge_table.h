// SPDX-License-Identifier: Apache-2.0
// Which two tokens of a BPE model become one, and how early.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "transformers/tokenizers/hashing.h"

namespace transformers::tokenizers {

struct Merge {
  std::uint32_t rank = kNoRank;
  std::uint32_t id = 0;

  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  bool exists() const { return rank != kNoRank; }
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t merges = 0)
      : slots_(std::bit_ceil(merges + merges / 2 + 8)),
        mask_(slots_.size() - 1) {}

  /// Sets what a pair becomes; the last word counts.
  void set(std::uint32_t left, std::uint32_t right, const Merge& merge) {
    if (++used_ * 4 > slots_.size() * 3) {
      grow();
    }
    Slot& slot = find_slot(key_of(left, right));
    slot.key = key_of(left, right);
    slot.merge = merge;
  }
  Merge find(std::uint32_t left, std::uint32_t right) const {
    return const_cast<MergeTable*>(this)->find_slot(key_of(left, right)).merge;
  }
  /// Calls `each(left, right, merge)`, in no order.
  template <typename Each>
  void for_each(Each each) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kFree) {
        each(
            static_cast<std::uint32_t>(slot.key >> 32),
            static_cast<std::uint32_t>(slot.key),
            slot.merge);
      }
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
    return (static_cast<std::uint64_t>(left) << 32) | right;
  }
  Slot& find_slot(std::uint64_t key) {
    const std::uint64_t hash = mix(key ^ kHashSeed, 0x9E3779B97F4A7C15ull);
    std::size_t at = static_cast<std::size_t>(hash) & mask_;
    while (slots_[at].key != key && slots_[at].key != kFree) {
      at = (at + 1) & mask_;
    }
    return slots_[at];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.key != kFree) {
        find_slot(slot.key) = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
  std::size_t used_ = 0;
};

}  // namespace transformers::tokenizers
