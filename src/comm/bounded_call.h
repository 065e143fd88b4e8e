// SPDX-License-Identifier: Apache-2.0
// Calls that may never return, each with a limit.
#pragma once

#include <chrono>
#include <functional>
#include <future>

namespace accelerate {

/// Makes calls that have no limit of their own, such as a question to a store
/// that lives in a stopped process.
///
/// A call that is out of time goes on in the background, so it must own all it
/// uses; while it does, no other is begun.
class BoundedCall {
 public:
  /// Whether `body` returned within `limit`; throws what it threw. False also
  /// when an earlier one has not come back within that time.
  bool returned_within(
      std::chrono::milliseconds limit, const std::function<void()>& body);

 private:
  std::future<void> open_;
};

}  // namespace accelerate
