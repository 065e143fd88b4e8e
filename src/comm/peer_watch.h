// SPDX-License-Identifier: Apache-2.0
// Frees a rank whose device waits for a peer that is gone.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "comm/shared_memory.h"

namespace accelerate {

/// Work on a device waits there, where nobody looks: when a peer dies, the
/// program finds out at its next collective, unless it waits for the device
/// before. So a thread looks whether the peers of this host live, and ends the
/// device's collectives when one does not.
///
/// A peer that ends in peace leaves too; what it took part in is then done, or
/// will be within a moment, which the thread leaves it.
class PeerWatch {
 public:
  /// `memory` tells who lives; with none, between hosts, nobody is watched.
  PeerWatch(
      std::shared_ptr<SharedMemory> memory,
      int rank,
      int size,
      std::function<void()> abort);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  /// Stops watching; waits for an `abort` under way.
  ~PeerWatch();

  bool has_aborted() const { return aborted_.load(); }

 private:
  void watch(const std::stop_token& stop);
  bool someone_is_gone() const;

  std::shared_ptr<SharedMemory> memory_;
  int rank_;
  int size_;
  std::function<void()> abort_;
  std::atomic<bool> aborted_ = false;
  std::jthread thread_;
};

}  // namespace accelerate
