// SPDX-License-Identifier: Apache-2.0
// Operations that a device's backend failed to start.
#pragma once

#include <exception>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace accelerate {

/// The `c10d::Work` of an operation that failed before it started.
class FailedWork : public c10d::Work {
 public:
  explicit FailedWork(std::exception_ptr error) { finish(std::move(error)); }
};

/// Calls `start` and returns the work from `start`, or a `FailedWork` if
/// `start` throws. After a rank has died, the communicator is broken and the
/// backend throws at the next operation. `Group::wait_on_device` then reports
/// the ranks that died.
template <typename Start>
c10::intrusive_ptr<c10d::Work> start_on_device(const Start& start) {
  try {
    return start();
  } catch (const std::exception&) {
    return c10::make_intrusive<FailedWork>(std::current_exception());
  }
}

}  // namespace accelerate
