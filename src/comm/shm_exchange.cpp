// SPDX-License-Identifier: Apache-2.0
#include "comm/shm_exchange.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace accelerate {
namespace {

// Two buffers per rank, see NOTE [Two buffers]. A call record takes a few
// hundred bytes; longer messages (objects) take several rounds.
constexpr std::size_t kBufferBytes = 8192;
constexpr std::size_t kPartBytes = kBufferBytes - sizeof(std::uint64_t);

std::string_view part(std::string_view text, std::size_t round) {
  const std::size_t begin = std::min(text.size(), round * kPartBytes);
  return text.substr(begin, kPartBytes);
}

}  // namespace

std::size_t ShmExchange::bytes(int size) {
  return ShmBarrier::bytes(size) +
         2 * kBufferBytes * static_cast<std::size_t>(size);
}

ShmExchange::ShmExchange(
    std::shared_ptr<SharedMemory> memory, std::byte* base, int rank, int size)
    : barrier_(std::move(memory), base, rank, size),
      buffers_(base + ShmBarrier::bytes(size)) {
}

std::span<std::byte> ShmExchange::buffer(int rank, int parity) const {
  return {
      buffers_ + static_cast<std::size_t>(2 * rank + parity) * kBufferBytes,
      kBufferBytes};
}

std::vector<std::string> ShmExchange::all_gather(
    const std::string& message, const Call& call, const WaitLimits& limits) {
  post(message);
  return collect(call, limits);
}

void ShmExchange::post(const std::string& message) {
  posted_ = message;
  write(0);
}

std::vector<std::string> ShmExchange::collect(
    const Call& call, const WaitLimits& limits) {
  std::vector<std::string> messages(static_cast<std::size_t>(barrier_.size()));
  barrier_.wait(call, limits);
  for (std::size_t round = 1; read(messages); ++round) {
    write(round);
    barrier_.wait(call, limits);
  }
  return messages;
}

// A buffer holds the length of the whole message and one part of it.
void ShmExchange::write(std::size_t round) {
  parity_ = barrier_.parity();
  const auto out = buffer(barrier_.rank(), parity_);
  const std::uint64_t length = posted_.size();
  const std::string_view text = part(posted_, round);
  std::memcpy(out.data(), &length, sizeof length);
  std::memcpy(out.data() + sizeof length, text.data(), text.size());
  barrier_.arrive();
}

// Appends the parts of this round; returns whether another round must follow.
bool ShmExchange::read(std::vector<std::string>& messages) const {
  bool more = false;
  for (int rank = 0; rank < barrier_.size(); ++rank) {
    const auto in = buffer(rank, parity_);
    auto& message = messages[static_cast<std::size_t>(rank)];
    std::uint64_t total = 0;
    std::memcpy(&total, in.data(), sizeof total);
    const auto part_bytes =
        std::min<std::size_t>(total - message.size(), kPartBytes);
    message.append(
        reinterpret_cast<const char*>(in.data()) + sizeof total, part_bytes);
    more = more || message.size() < total;
  }
  return more;
}

}  // namespace accelerate
