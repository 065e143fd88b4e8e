// SPDX-License-Identifier: Apache-2.0
// Short messages between all ranks of a group.
#pragma once

#include <string>
#include <vector>

#include "comm/patience.h"

namespace accelerate {

/// Hands each rank's message to every rank. What ranks agree on before a
/// collective, and the objects of `gather_object`, travel this way.
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  /// Returns the messages of all ranks, in rank order. Lengths may differ.
  ///
  /// Collective. Throws `DistributedError` when a rank is gone or late.
  virtual std::vector<std::string> all(
      const std::string& mine, const Call& call, const Patience& patience) = 0;

  /// The same in two halves: `post` does not wait, `collect` does.
  virtual void post(const std::string& mine) { posted_ = mine; }
  /// Whether `collect` would return at once; never true where only waiting
  /// tells.
  virtual bool all_posted() const { return false; }
  virtual std::vector<std::string> collect(
      const Call& call, const Patience& patience) {
    return all(posted_, call, patience);
  }

 protected:
  std::string posted_;
};

}  // namespace accelerate
