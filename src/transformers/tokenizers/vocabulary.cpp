// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/vocabulary.h"

#include <bit>
#include <random>

#include "transformers/tokenizers/hashing.h"

namespace transformers::tokenizers {

const std::uint64_t kHashSeed = [] {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}();

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  texts_.reserve(bytes);
  entries_.reserve(tokens);
  by_id_.reserve(tokens);
  grow(tokens);
}

void Vocabulary::grow(std::size_t tokens) {
  const std::size_t wanted = std::bit_ceil(tokens + tokens / 2 + 8);
  if (wanted <= slots_.size()) {
    return;
  }
  slots_.assign(wanted, {});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto hash = static_cast<std::uint32_t>(hash_bytes(view(entries_[i])));
    std::size_t at = hash & (wanted - 1);
    while (slots_[at].entry != 0) {
      at = (at + 1) & (wanted - 1);
    }
    slots_[at] = {hash, static_cast<std::uint32_t>(i + 1)};
  }
}

bool Vocabulary::add(std::string_view token, std::uint32_t id) {
  grow(entries_.size() + 1);
  const auto hash = static_cast<std::uint32_t>(hash_bytes(token));
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].entry != 0; at = (at + 1) & mask) {
    if (slots_[at].hash == hash &&
        view(entries_[slots_[at].entry - 1]) == token) {
      return false;
    }
  }
  entries_.push_back(
      {static_cast<std::uint32_t>(texts_.size()),
       static_cast<std::uint32_t>(token.size()),
       id});
  texts_.append(token);
  slots_[at] = {hash, static_cast<std::uint32_t>(entries_.size())};
  if (id >= by_id_.size()) {
    by_id_.resize(id + 1);
  }
  by_id_[id] = static_cast<std::uint32_t>(entries_.size());
  return true;
}

std::optional<std::uint32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) {
    return std::nullopt;
  }
  const auto hash = static_cast<std::uint32_t>(hash_bytes(token));
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].entry != 0;
       at = (at + 1) & mask) {
    const Entry& entry = entries_[slots_[at].entry - 1];
    if (slots_[at].hash == hash && view(entry) == token) {
      return entry.id;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> Vocabulary::text(std::uint32_t id) const {
  if (id >= by_id_.size() || by_id_[id] == 0) {
    return std::nullopt;
  }
  return view(entries_[by_id_[id] - 1]);
}

}  // namespace transformers::tokenizers
