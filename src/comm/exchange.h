// SPDX-License-Identifier: Apache-2.0
// Exchanges short messages between all ranks of a process group.
#pragma once

#include <string>
#include <vector>

#include "comm/wait_limits.h"

namespace accelerate {

/// Sends each rank's message to every rank. Used for the check before each
/// collective and for the objects of `gather_object`.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// Returns the messages from all ranks, in rank order. The messages may have
  /// different lengths.
  ///
  /// Collective. Throws `DistributedError` when a rank has exited or times out.
  virtual std::vector<std::string> all_gather(
      const std::string& message,
      const Call& call,
      const WaitLimits& limits) = 0;

  /// `post` followed by `collect` does the same as `all_gather`. Only `collect`
  /// waits for the other ranks.
  virtual void post(const std::string& message) { posted_ = message; }
  /// Returns whether `collect` would return immediately. Always false for an
  /// exchange that cannot determine this without waiting.
  virtual bool all_posted() const { return false; }
  virtual std::vector<std::string> collect(
      const Call& call, const WaitLimits& limits) {
    return all_gather(posted_, call, limits);
  }

 protected:
  std::string posted_;
};

}  // namespace accelerate
