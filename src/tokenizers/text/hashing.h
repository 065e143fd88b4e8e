// SPDX-License-Identifier: Apache-2.0
// A fast hash of short byte strings. The seed is random in each process, so
// that a crafted file cannot cause collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace transformers::tokenizers {

extern const std::uint64_t kHashSeed;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^
         static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_words(
    std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return mix(
      mix(a ^ kHashSeed, b ^ 0x9E3779B97F4A7C15ull) ^ c, 0xD6E8FEB86659FD93ull);
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = kHashSeed ^ bytes.size();
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    hash = mix(hash ^ word, 0x9E3779B97F4A7C15ull);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  return mix(hash ^ rest, 0xD6E8FEB86659FD93ull);
}

// Functions for hash tables with linear probing. A table has a third more slots
// than entries. The number of slots is not rounded up to a power of two,
// because that could double the memory.

inline std::size_t slots_for(std::size_t entries) {
  return entries + entries / 3 + 8;
}
inline bool has_room(std::size_t slots, std::size_t entries) {
  return slots >= slots_for(entries);
}
inline std::size_t first_slot(std::uint64_t hash, std::size_t slots) {
  return static_cast<std::size_t>((hash >> 32) * slots >> 32);
}
inline std::size_t next_slot(std::size_t slot, std::size_t slots) {
  return slot + 1 == slots ? 0 : slot + 1;
}

}  // namespace transformers::tokenizers
