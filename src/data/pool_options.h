// SPDX-License-Identifier: Apache-2.0
// Options for a pool of threads that read data, and messages about slow
// threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace accelerate {

/// The thread index that means "no thread".
inline constexpr std::int64_t kNoThread = -1;

struct PoolOptions {
  std::int64_t threads = 1;
  /// Maximum number of results that are being computed or not yet taken.
  std::int64_t capacity = 1;
  /// How long to wait for a thread before printing a warning.
  std::chrono::milliseconds warn_after = std::chrono::seconds(30);
  /// How long to wait for a thread before throwing `IoError`.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Describes what a thread is reading, for messages, such as "sample 17 of
  /// the dataset".
  std::function<std::string(std::int64_t thread)> describe_read = {};
};

/// Warns on stderr that the loop is waiting for data that `thread` is reading.
void warn_waiting(const PoolOptions& options, std::int64_t thread);
/// Warns on stderr that a loop that ended early is waiting for `thread` to end.
void warn_stopping(const PoolOptions& options, std::int64_t thread);
/// Throws `IoError` with a message that `thread` did not read its data within
/// `options.timeout`.
[[noreturn]] void throw_timeout(
    const PoolOptions& options, std::int64_t thread);

}  // namespace accelerate
