// SPDX-License-Identifier: Apache-2.0
#include "comm/group_backends.h"

#include "accelerate/error.h"
#include "comm/group_impl.h"

namespace accelerate {

c10d::Backend& GroupBackends::cpu(const Group& group) {
  if (!group.impl_->backend) {
    throw StateError(
        "a group of one rank has no backend", "check `size()` first");
  }
  return *group.impl_->backend;
}

c10d::Backend* GroupBackends::device(const Group& group) {
  return group.impl_->device_backend.get();
}

c10::intrusive_ptr<c10d::ProcessGroup> GroupBackends::process_group(
    const Group& group) {
  using Type = c10d::ProcessGroup::BackendType;
  const auto type =
      cpu(group).getBackendName() == "gloo" ? Type::GLOO : Type::CUSTOM;
  auto result = c10::make_intrusive<c10d::ProcessGroup>(
      group.impl_->context.store, group.rank(), group.size());
  result->setBackend(at::DeviceType::CPU, type, group.impl_->backend);
  result->setDefaultBackend(type);
  return result;
}

}  // namespace accelerate
