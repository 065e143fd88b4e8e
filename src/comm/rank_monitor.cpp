// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_monitor.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace accelerate {
namespace {

constexpr std::chrono::milliseconds kCheckInterval(100);
// Time for the last collective of a rank that exited normally.
constexpr std::chrono::milliseconds kExitGrace(1000);

// Returns true when a stop was requested.
bool pause(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return stop.stop_requested();
}

}  // namespace

RankMonitor::RankMonitor(
    std::shared_ptr<SharedMemory> memory,
    int rank,
    int size,
    std::function<void()> abort)
    : memory_(std::move(memory)),
      rank_(rank),
      size_(size),
      abort_(std::move(abort)) {
  if (memory_ && size_ > 1) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
}

RankMonitor::~RankMonitor() = default;

bool RankMonitor::any_rank_exited() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !memory_->is_present(rank)) {
      return true;
    }
  }
  return false;
}

void RankMonitor::run(const std::stop_token& stop) {
  while (!any_rank_exited()) {
    if (pause(stop, kCheckInterval)) {
      return;
    }
  }
  if (!pause(stop, kExitGrace)) {
    aborted_ = true;
    abort_();
  }
}

}  // namespace accelerate
