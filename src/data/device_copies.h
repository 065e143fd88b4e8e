// SPDX-License-Identifier: Apache-2.0
// Batches on their way to a device.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace accelerate {

/// Copies batches on a stream of its own, while the device still works on
/// what it was given before: a program is ahead of its device by a step or
/// so. The stream that uses the batch waits for the copy, the program does not
/// if the batch lies in pinned memory.
///
/// For the CPU it only hands the tensors on.
class DeviceCopies {
 public:
  explicit DeviceCopies(c10::Device device);

  bool are_needed() const { return !device_.is_cpu(); }

  /// Tensors whose copies have begun; not to be used before `finish`.
  struct Begun {
    std::vector<at::Tensor> tensors;
    std::vector<bool> are_copies;
    std::shared_ptr<c10::Event> done;  // Null on the CPU.
  };
  Begun begin(const std::vector<at::Tensor>& tensors, bool non_blocking) const;
  /// Lets the current stream wait for them, and what it does next use them.
  /// Begun and finished apart, the copies run beside what the stream was given
  /// in between.
  void finish(const Begun& begun) const;

  /// The same tensors on the device, for use on the current stream.
  /// `non_blocking` lets copies out of memory that is not pinned run on, too.
  std::vector<at::Tensor> copy(
      const std::vector<at::Tensor>& tensors, bool non_blocking) const;

 private:
  c10::Device device_;
  c10::Stream stream_;
};

}  // namespace accelerate
