// SPDX-License-Identifier: Apache-2.0
// Whether a process group can still be used, and if not, why.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace accelerate::mpi {

/// Remembers the first failure of a process group. Thread-safe.
class Health {
 public:
  explicit Health(std::string group_name)
      : group_name_(std::move(group_name)) {}

  bool broken() const { return broken_; }
  /// Marks the group as broken and stores `reason`, unless the group is already
  /// broken.
  void fail(const std::string& reason);
  /// Throws `DistributedError` with the first reason once the group is broken.
  void require_usable() const;

 private:
  const std::string group_name_;
  std::atomic<bool> broken_ = false;
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace accelerate::mpi
