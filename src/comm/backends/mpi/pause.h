// SPDX-License-Identifier: Apache-2.0
// How a thread waits for something it can only look at.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

namespace accelerate::mpi {

/// Looks again at once for a short while, then sleeps, the longer the longer
/// the wait has lasted.
class Pause {
 public:
  /// `expected_bytes` that are on their way extend the short while: MPI moves
  /// data only inside our calls, so sleeping would slow it down.
  explicit Pause(std::size_t expected_bytes = 0)
      : start_(Clock::now()),
        short_while_(
            kShortWhile + std::chrono::nanoseconds(
                              static_cast<std::int64_t>(expected_bytes) *
                              kNanosecondsPerByte)) {}

  /// True when the pause was a sleep.
  bool operator()() {
    const auto waited = Clock::now() - start_;
    if (waited < short_while_) {
      std::this_thread::yield();
      return false;
    }
    // A share of the wait so far: who oversleeps makes the others wait, and
    // with doubled sleeps three ranks on two cores kept each other at the
    // longest one.
    std::this_thread::sleep_for(
        std::min<Clock::duration>(waited / 8, kLongestSleep));
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Three ranks on two cores, all-reduce of 4 bytes: 45 us; with 50 instead of
  // 200 it was 310 us, because each waited for another that had just slept.
  static constexpr std::chrono::microseconds kShortWhile{200};
  // 250 MB/s: slower than memory or any network worth the name.
  static constexpr std::int64_t kNanosecondsPerByte = 4;
  static constexpr std::chrono::microseconds kLongestSleep{500};

  const Clock::time_point start_;
  const Clock::duration short_while_;
};

}  // namespace accelerate::mpi
