// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/mpi/health.h"

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::mpi {

void Health::fail(const std::string& reason) {
  const std::lock_guard guard(mutex_);
  if (!broken_) {
    reason_ = reason;
    broken_ = true;
  }
}

void Health::require_usable() const {
  if (!broken_) {
    return;
  }
  const std::lock_guard guard(mutex_);
  throw DistributedError(
      str_cat("group `", group_name_, "` is unusable: ", reason_),
      "restart the run; a failed process group cannot be repaired");
}

}  // namespace accelerate::mpi
