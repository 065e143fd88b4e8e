// SPDX-License-Identifier: Apache-2.0
#include "comm/shm_exchange.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace accelerate {
namespace {

// Two buffers per rank, see NOTE [Two buffers]. A message to agree on a call
// has some hundred bytes; longer ones (objects) take several rounds.
constexpr std::size_t kBuffer = 8192;
constexpr std::size_t kRoom = kBuffer - sizeof(std::uint64_t);

std::string_view part(std::string_view text, std::size_t round) {
  const std::size_t begin = std::min(text.size(), round * kRoom);
  return text.substr(begin, kRoom);
}

}  // namespace

std::size_t ShmExchange::bytes(int size) {
  return Rounds::bytes(size) + 2 * kBuffer * static_cast<std::size_t>(size);
}

ShmExchange::ShmExchange(
    std::shared_ptr<SharedMemory> memory, std::byte* where, int rank, int size)
    : rounds_(std::move(memory), where, rank, size),
      buffers_(where + Rounds::bytes(size)) {
}

std::span<std::byte> ShmExchange::buffer(int rank, int parity) const {
  return {
      buffers_ + static_cast<std::size_t>(2 * rank + parity) * kBuffer,
      kBuffer};
}

std::vector<std::string> ShmExchange::all(
    const std::string& mine, const Call& call, const Patience& patience) {
  post(mine);
  return collect(call, patience);
}

void ShmExchange::post(const std::string& mine) {
  posted_ = mine;
  write(0);
}

std::vector<std::string> ShmExchange::collect(
    const Call& call, const Patience& patience) {
  std::vector<std::string> messages(static_cast<std::size_t>(rounds_.size()));
  rounds_.wait(call, patience);
  for (std::size_t round = 1; read(messages); ++round) {
    write(round);
    rounds_.wait(call, patience);
  }
  return messages;
}

// A buffer holds the length of the whole message, then the part of this round.
void ShmExchange::write(std::size_t round) {
  parity_ = rounds_.parity();
  const auto out = buffer(rounds_.rank(), parity_);
  const std::uint64_t length = posted_.size();
  const std::string_view text = part(posted_, round);
  std::memcpy(out.data(), &length, sizeof length);
  std::memcpy(out.data() + sizeof length, text.data(), text.size());
  rounds_.arrive();
}

// Adds what this round brought; whether another one must follow.
bool ShmExchange::read(std::vector<std::string>& messages) const {
  bool more = false;
  for (int rank = 0; rank < rounds_.size(); ++rank) {
    const auto in = buffer(rank, parity_);
    auto& message = messages[static_cast<std::size_t>(rank)];
    std::uint64_t total = 0;
    std::memcpy(&total, in.data(), sizeof total);
    const auto take = std::min<std::size_t>(total - message.size(), kRoom);
    message.append(
        reinterpret_cast<const char*>(in.data()) + sizeof total, take);
    more = more || message.size() < total;
  }
  return more;
}

}  // namespace accelerate
