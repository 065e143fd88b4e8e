// SPDX-License-Identifier: Apache-2.0
#include "comm/peer_watch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace accelerate {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(100);
// For the last collective of a peer that left in peace.
constexpr std::chrono::milliseconds kAfterlife(1000);

// Returns true when it was told to stop.
bool pause(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

PeerWatch::PeerWatch(
    std::shared_ptr<SharedMemory> memory,
    int rank,
    int size,
    std::function<void()> abort)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      abort_(std::move(abort)) {
  if (memory_ && size_ > 1) {
    thread_ =
        std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
}

PeerWatch::~PeerWatch() = default;

bool PeerWatch::someone_is_gone() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !memory_->is_present(rank)) {
      return true;
    }
  }
  return false;
}

void PeerWatch::watch(const std::stop_token& stop) {
  while (!someone_is_gone()) {
    if (pause(stop, kBetweenLooks)) {
      return;
    }
  }
  if (!pause(stop, kAfterlife)) {
    aborted_ = true;
    abort_();
  }
}

}  // namespace accelerate
