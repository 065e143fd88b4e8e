// SPDX-License-Identifier: Apache-2.0
// Caches the tokens of words. A word and its tokens share a slot of one or two
// cache lines, so a hit costs one memory access. New words overwrite old words,
// so the cache does not grow.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "tokenizers/text/hashing.h"

namespace transformers::tokenizers {

template <std::size_t KeyBytes, std::size_t MaxIds>
class CacheTable {
 public:
  struct Slot {
    std::uint64_t key[KeyBytes / 8];
    std::uint32_t ids[MaxIds];
    std::uint32_t length;  // 0 if the slot is free.
    std::uint32_t count;
  };

  explicit CacheTable(std::size_t slots)
      : mask_(slots - 1),
        // The system zeroes each page on first use.
        memory_(std::calloc(slots * sizeof(Slot) + 64, 1)) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
    void* at = memory_.get();
    std::size_t room = slots * sizeof(Slot) + 64;
    slots_ = static_cast<Slot*>(std::align(64, slots * sizeof(Slot), at, room));
  }

  /// A word as 64-bit numbers, padded with zeros.
  struct Key {
    std::uint64_t words[KeyBytes / 8];
    std::uint32_t length;
  };
  /// Creates the key for a word. `end` is the end of the readable memory.
  static Key key_of(const char* data, std::size_t length, const char* end) {
    Key key;
    key.length = static_cast<std::uint32_t>(length);
    if (static_cast<std::size_t>(end - data) >= KeyBytes) {
      // The bytes after the word are masked without a branch, because lengths
      // are hard to predict.
      std::uint64_t mask[KeyBytes / 8];
      std::memcpy(mask, kMask.bytes + KeyBytes - length, KeyBytes);
      std::memcpy(key.words, data, KeyBytes);
      for (std::size_t i = 0; i < KeyBytes / 8; ++i) {
        key.words[i] &= mask[i];
      }
    } else {
      std::memset(key.words, 0, KeyBytes);
      std::memcpy(key.words, data, length);
    }
    return key;
  }
  // The multiplications are independent, so the processor runs them in
  // parallel.
  static std::uint64_t hash_of(const Key& key) {
    constexpr std::size_t kCount = KeyBytes / 8;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < kCount; i += 2) {
      const std::uint64_t second = i + 1 < kCount ? key.words[i + 1] : 0;
      hash ^=
          mix(key.words[i] ^ (kHashSeed + i),
              second ^ key.length ^ 0x9E3779B97F4A7C15ull);
    }
    return hash;
  }
  /// Prefetches the slots of a word for a later `find`.
  void prefetch(std::uint64_t hash) const {
    __builtin_prefetch(&slots_[hash & mask_]);
  }
  /// Returns the slot of a word, or null if the word is not cached.
  const Slot* find(const Key& key, std::uint64_t hash) const {
    for (const std::size_t at : slots_of(hash)) {
      const Slot& slot = slots_[at];
      if (matches(slot, key)) {
        return &slot;
      }
      if (slot.length == 0) {
        break;  // `put` would have used this slot.
      }
    }
    return nullptr;
  }
  void put(
      const Key& key,
      std::uint64_t hash,
      const std::uint32_t* ids,
      std::size_t count) {
    Slot& slot = slot_for(hash);
    std::memcpy(slot.key, key.words, KeyBytes);
    std::copy_n(ids, count, slot.ids);
    slot.length = key.length;
    slot.count = static_cast<std::uint32_t>(count);
  }

 private:
  // The slots in which a word may be, in the order in which they are used: two
  // neighbors, and two neighbors elsewhere. With only the first two, words
  // would replace each other long before the table is full.
  std::array<std::size_t, 4> slots_of(std::uint64_t hash) const {
    const std::size_t first = hash & mask_;
    const std::size_t second = (hash >> 32) & mask_;
    return {first, first ^ 1, second, second ^ 1};
  }
  // Returns a free slot. If there is none, moves the word in the first slot to
  // the neighboring slot, whose word is lost, and returns the first slot.
  Slot& slot_for(std::uint64_t hash) {
    const auto places = slots_of(hash);
    for (const std::size_t at : places) {
      if (slots_[at].length == 0) {
        return slots_[at];
      }
    }
    slots_[places[1]] = slots_[places[0]];
    return slots_[places[0]];
  }
  static bool matches(const Slot& slot, const Key& key) {
    std::uint64_t difference = slot.length ^ key.length;
    for (std::size_t i = 0; i < KeyBytes / 8; ++i) {
      difference |= slot.key[i] ^ key.words[i];
    }
    return difference == 0;
  }
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  // `KeyBytes` bytes with all bits set, followed by as many zero bytes.
  struct Mask {
    unsigned char bytes[2 * KeyBytes] = {};
    constexpr Mask() { std::fill_n(bytes, KeyBytes, 0xFF); }
  };
  static constexpr Mask kMask{};

  std::size_t mask_;
  std::unique_ptr<void, Free> memory_;
  Slot* slots_;
};

using ShortWords = CacheTable<24, 8>;  // A slot takes one cache line.
using LongWords = CacheTable<64, 14>;  // A slot takes two cache lines.
static_assert(sizeof(ShortWords::Slot) == 64);
static_assert(sizeof(LongWords::Slot) == 128);

}  // namespace transformers::tokenizers
