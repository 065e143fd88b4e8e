// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/models/vocabulary.h"

#include <algorithm>
#include <random>

#include "tokenizers/text/hashing.h"

namespace transformers::tokenizers {

const std::uint64_t kHashSeed = [] {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}();

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  texts_.reserve(bytes);
  entries_.reserve(tokens);
  if (!has_room(slots_.size(), tokens)) {
    make_slots(tokens);
  }
}

void Vocabulary::make_slots(std::size_t tokens) {
  slots_.assign(slots_for(tokens), 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t hash = hash_bytes(view(i));
    std::size_t at = first_slot(hash, slots_.size());
    while (slots_[at] != 0) {
      at = next_slot(at, slots_.size());
    }
    slots_[at] = slot_of(hash, i);
  }
}

std::uint32_t Vocabulary::slot_of(std::uint64_t hash, std::size_t index) {
  return static_cast<std::uint32_t>(hash) << 24 |
         static_cast<std::uint32_t>(index + 1);
}

std::size_t Vocabulary::find_slot(
    std::string_view token, std::uint64_t hash) const {
  const auto tag = static_cast<std::uint8_t>(hash);
  std::size_t at = first_slot(hash, slots_.size());
  while (slots_[at] != 0 &&
         (slots_[at] >> 24 != tag || view(index_in(at)) != token)) {
    at = next_slot(at, slots_.size());
  }
  return at;
}

bool Vocabulary::add(std::string_view token, std::uint32_t id) {
  if (!has_room(slots_.size(), entries_.size() + 1)) {
    make_slots(2 * entries_.size() + 8);
  }
  const std::uint64_t hash = hash_bytes(token);
  const std::size_t slot = find_slot(token, hash);
  if (slots_[slot] != 0) {
    return false;
  }
  const std::size_t index = entries_.size();
  slots_[slot] = slot_of(hash, index);
  entries_.push_back({static_cast<std::uint32_t>(texts_.size()), id});
  texts_.append(token);
  if (ids_are_indices_ && id != index) {
    build_id_table();
  }
  if (!ids_are_indices_) {
    if (id >= by_id_.size()) {
      by_id_.resize(id + 1);
    }
    by_id_[id] = static_cast<std::uint32_t>(index + 1);
  }
  return true;
}

void Vocabulary::build_id_table() {
  ids_are_indices_ = false;
  by_id_.reserve(entries_.capacity());
  for (std::uint32_t i = 1; i < entries_.size(); ++i) {
    by_id_.push_back(i);
  }
}

std::optional<std::uint32_t> Vocabulary::find(
    std::string_view token, std::uint64_t hash) const {
  const std::size_t slot = find_slot(token, hash);
  if (slots_[slot] == 0) {
    return std::nullopt;
  }
  return entries_[index_in(slot)].id;
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  return find(token, hash_bytes(token));
}

// A slot points to an entry, and the entry points to a text. Each step is done
// for all hashes before the next step begins, so that memory accesses overlap.
void Vocabulary::prefetch(std::span<const std::uint64_t> hashes) const {
  for (const std::uint64_t hash : hashes) {
    __builtin_prefetch(&slots_[first_slot(hash, slots_.size())]);
  }
  std::vector<std::size_t> indices;
  indices.reserve(hashes.size());
  for (const std::uint64_t hash : hashes) {
    const auto tag = static_cast<std::uint8_t>(hash);
    std::size_t at = first_slot(hash, slots_.size());
    while (slots_[at] != 0 && slots_[at] >> 24 != tag) {
      at = next_slot(at, slots_.size());
    }
    if (slots_[at] != 0) {
      indices.push_back(index_in(at));
      __builtin_prefetch(&entries_[indices.back()]);
    }
  }
  for (const std::size_t index : indices) {
    __builtin_prefetch(texts_.data() + entries_[index].begin);
  }
}

void Vocabulary::find_all(
    std::span<const std::string_view> tokens,
    std::span<std::optional<std::uint32_t>> ids) const {
  if (slots_.empty()) {
    std::ranges::fill(ids, std::nullopt);
    return;
  }
  std::vector<std::uint64_t> hashes;
  hashes.reserve(tokens.size());
  for (const std::string_view token : tokens) {
    hashes.push_back(hash_bytes(token));
  }
  prefetch(hashes);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ids[i] = find(tokens[i], hashes[i]);
  }
}

std::optional<std::string_view> Vocabulary::text(std::uint32_t id) const {
  if (id >= limit() || (!ids_are_indices_ && by_id_[id] == 0)) {
    return std::nullopt;
  }
  return view(ids_are_indices_ ? id : by_id_[id] - 1);
}

}  // namespace transformers::tokenizers
