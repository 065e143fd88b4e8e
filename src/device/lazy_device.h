// SPDX-License-Identifier: Apache-2.0
// A device that records operators and runs them later, one program per step.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/fwd.h"

namespace accelerate {

/// The mesh of all devices of this process. Operators on tensors of the mesh
/// are only recorded; they run when `run` is called or a value is read. Each
/// program runs on all devices of the mesh.
///
/// Thread safety: all functions may be called from any thread.
class LazyDevice {
 public:
  virtual ~LazyDevice() = default;

  /// Returns the number of devices in the mesh. Each batch is divided among
  /// them.
  virtual std::int64_t device_count() const = 0;

  /// Starts one program that computes every live tensor. Should be called at
  /// the end of each training step: steps that do the same work then share one
  /// compiled program.
  virtual void run() = 0;

  /// Starts one program that computes what was recorded up to the last write to
  /// one of `tensors`. What was recorded later belongs to the next program.
  /// Does nothing if no tensor in `tensors` was written since the last run.
  virtual void run_until_written(const std::vector<at::Tensor>& tensors) = 0;

  /// Copies a CPU tensor to the mesh. Each device gets an equal part of
  /// dimension 0. If the size of dimension 0 is not a multiple of the number of
  /// devices, each device gets the whole tensor.
  virtual at::Tensor upload_divided(const at::Tensor& tensor) = 0;
};

}  // namespace accelerate
