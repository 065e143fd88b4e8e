// SPDX-License-Identifier: Apache-2.0
// Waits between two checks of a condition that a thread can only poll.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace accelerate::mpi {

/// Spins for a short while, then sleeps for longer and longer periods.
class Pause {
 public:
  /// The more `expected_bytes` are in flight, the longer the thread spins. MPI
  /// moves data only inside calls to MPI, so sleeping would slow down the
  /// transfer.
  explicit Pause(std::size_t expected_bytes = 0)
      : start_(Clock::now()),
        spin_time_(
            kSpinTime + std::chrono::nanoseconds(
                            static_cast<std::int64_t>(expected_bytes) *
                            kNanosecondsPerByte)) {}

  /// Pauses once. Returns true if the thread slept.
  bool operator()() {
    const auto waited = Clock::now() - start_;
    if (waited < spin_time_) {
      std::this_thread::yield();
      return false;
    }
    // Sleeps for a fraction of the wait so far, because a rank that sleeps too
    // long makes the other ranks wait. When each sleep was twice as long as the
    // previous sleep, three ranks on two cores always reached the longest
    // sleep.
    std::this_thread::sleep_for(
        std::min<Clock::duration>(waited / 8, kLongestSleep));
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // With three ranks on two cores, an all-reduce of 4 bytes takes 45 us. With a
  // spin time of 50 us, it took 310 us, because each rank waited for a rank
  // that had just gone to sleep.
  static constexpr std::chrono::microseconds kSpinTime{200};
  // Assumes 250 MB/s, which is slower than memory or any usable network.
  static constexpr std::int64_t kNanosecondsPerByte = 4;
  static constexpr std::chrono::microseconds kLongestSleep{500};

  const Clock::time_point start_;
  const Clock::duration spin_time_;
};

}  // namespace accelerate::mpi
