// SPDX-License-Identifier: Apache-2.0
// Operations that a device's backend refuses to start.
#pragma once

#include <exception>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace accelerate {

/// One that never began.
class RefusedWork : public c10d::Work {
 public:
  explicit RefusedWork(std::exception_ptr why) { finish(std::move(why)); }
};

/// What `start` returns. A backend whose communicator has broken, because a
/// peer died, throws at the next operation: that is kept for the wait, which
/// knows how to say who is gone (`Group::wait_on_device`).
template <typename Start>
c10::intrusive_ptr<c10d::Work> started_on_device(const Start& start) {
  try {
    return start();
  } catch (const std::exception&) {
    return c10::make_intrusive<RefusedWork>(std::current_exception());
  }
}

}  // namespace accelerate
