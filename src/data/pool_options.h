// SPDX-License-Identifier: Apache-2.0
// How a pool of reading threads is set up, and what it says when one is late.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace accelerate {

/// No thread of a pool.
inline constexpr std::int64_t kNobody = -1;

struct PoolOptions {
  std::int64_t threads = 1;
  /// Results that may lie ready or be under way.
  std::int64_t capacity = 1;
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// What a thread is reading, for messages: "sample 17 of the dataset".
  std::function<std::string(std::int64_t thread)> reads = {};
};

/// Warn on stderr: the loop waits for what the thread reads, or for the
/// thread to end.
void warn_of_wait(const PoolOptions& options, std::int64_t thread);
void warn_of_end(const PoolOptions& options, std::int64_t thread);
/// Throws `IoError`: the loop has waited for `timeout`.
[[noreturn]] void throw_late(const PoolOptions& options, std::int64_t thread);

}  // namespace accelerate
