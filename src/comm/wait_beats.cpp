// SPDX-License-Identifier: Apache-2.0
#include "comm/wait_beats.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

namespace accelerate {
namespace {

using std::chrono::steady_clock;

constexpr steady_clock::duration kSilentAfter = std::chrono::seconds(1);

}  // namespace

// All processes on a machine have the same steady clock.
struct WaitBeats::Slot {
  std::atomic<std::int64_t> last_beat;

  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
};

std::size_t WaitBeats::bytes(int size) {
  return whole_pages(sizeof(Slot) * static_cast<std::size_t>(size));
}

WaitBeats::WaitBeats(
    std::shared_ptr<SharedMemory> memory, std::byte* base, int rank)
    : memory_(std::move(memory)),
      slots_(reinterpret_cast<Slot*>(base)),
      rank_(rank) {
}

void WaitBeats::beat() {
  slots_[rank_].last_beat.store(
      steady_clock::now().time_since_epoch().count(),
      std::memory_order_relaxed);
}

std::vector<int> WaitBeats::silent(const std::vector<int>& ranks) const {
  const auto oldest = (steady_clock::now() - kSilentAfter).time_since_epoch();
  std::vector<int> result;
  for (const int rank : ranks) {
    if (slots_[rank].last_beat.load(std::memory_order_relaxed) <
        oldest.count()) {
      result.push_back(rank);
    }
  }
  return result.empty() ? ranks : result;
}

}  // namespace accelerate
