// SPDX-License-Identifier: Apache-2.0
// Unblocks a rank whose GPU is waiting for a dead rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "comm/shared_memory.h"

namespace accelerate {

/// Aborts the collectives on this rank's GPU when another rank on this machine
/// has died.
///
/// A collective on a GPU blocks the device, not the program. Without this
/// class, the program would notice that another rank has died only at its next
/// collective, or never if it waits for the device first. A thread therefore
/// checks whether the ranks on this machine are alive.
///
/// The thread cannot detect whether a rank exited normally or died, so it calls
/// `abort` in both cases. Before that, the thread waits one second, so that the
/// last collective can finish after a normal exit.
class RankMonitor {
 public:
  /// `memory` shows which ranks are alive. If `memory` is null (the ranks share
  /// no memory), no rank is monitored. `abort` must abort the collectives on
  /// the device.
  RankMonitor(
      std::shared_ptr<SharedMemory> memory,
      int rank,
      int size,
      std::function<void()> abort);
  RankMonitor(const RankMonitor&) = delete;
  RankMonitor& operator=(const RankMonitor&) = delete;
  /// Stops the thread. If `abort` is running, waits until it has returned.
  ~RankMonitor();

  bool has_aborted() const { return aborted_.load(); }

 private:
  void run(const std::stop_token& stop);
  bool any_rank_exited() const;

  std::shared_ptr<SharedMemory> memory_;
  int rank_;
  int size_;
  std::function<void()> abort_;
  std::atomic<bool> aborted_ = false;
  std::jthread thread_;
};

}  // namespace accelerate
