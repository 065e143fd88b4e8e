// SPDX-License-Identifier: Apache-2.0
// Puts a timeout on calls that may never return.
#pragma once

#include <chrono>
#include <functional>
#include <future>

namespace accelerate {

/// Puts a timeout on calls that have no timeout of their own, such as a request
/// to a store in a stopped process.
///
/// A call that times out continues in the background, so it must own everything
/// it uses. No other call starts until the call in the background has returned.
class BoundedCall {
 public:
  /// Calls `body` and returns whether `body` returned within `timeout`.
  /// Rethrows an exception from `body`. If an earlier call is still running
  /// after `timeout`, returns false without calling `body`.
  bool returned_within(
      std::chrono::milliseconds timeout, const std::function<void()>& body);

 private:
  std::future<void> running_;
};

}  // namespace accelerate
