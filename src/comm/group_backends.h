// SPDX-License-Identifier: Apache-2.0
// Access to the backends of a group, for tests and benchmarks of the backends.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "accelerate/export.h"
#include "accelerate/group.h"

namespace accelerate {

/// Gives access to the backends of a group. Operations on a backend bypass the
/// group: the ranks do not compare their calls.
class ACCELERATE_API GroupBackends {
 public:
  /// Returns the backend for tensors in host memory. Throws `StateError` in a
  /// group of one rank, which has no backend.
  static c10d::Backend& cpu(const Group& group);
  /// Returns the backend for tensors on the group's device, or null.
  static c10d::Backend* device(const Group& group);
  /// Wraps the backend that `cpu` returns in a LibTorch process group.
  /// With this process group, tests and benchmarks compare this library's
  /// classes with LibTorch's.
  static c10::intrusive_ptr<c10d::ProcessGroup> process_group(
      const Group& group);
};

}  // namespace accelerate
