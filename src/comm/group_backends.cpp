// SPDX-License-Identifier: Apache-2.0
#include "comm/group_backends.h"

#include "accelerate/error.h"
#include "comm/group_impl.h"

namespace accelerate {

c10d::Backend& GroupBackends::cpu(const Group& group) {
  if (!group.impl_->backend) {
    throw StateError(
        "a group of one rank has no backend",
        "check `size()` before calling `process_group()`");
  }
  return *group.impl_->backend;
}

c10d::Backend* GroupBackends::device(const Group& group) {
  return group.impl_->device_backend.get();
}

}  // namespace accelerate
