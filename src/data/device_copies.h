// SPDX-License-Identifier: Apache-2.0
// Copies batches to a device.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace accelerate {

class LazyDevice;

/// Copies batches to a device on a separate stream, while the device is still
/// working on earlier steps: the CPU runs about one step ahead of the device.
/// The stream that uses a batch waits until the batch is copied. The CPU does
/// not wait if the batch is in pinned memory.
///
/// The copy of a mask carries the mask's token counts (token_counts.h), so a
/// model does not have to wait for the device to count the tokens.
///
/// If the device is the CPU, there is no separate stream, and tensors that are
/// already on the CPU are not copied. On a lazy device, each batch is divided
/// among the devices of the mesh.
class DeviceCopies {
 public:
  explicit DeviceCopies(c10::Device device);

  bool are_needed() const { return !device_.is_cpu(); }

  /// Ends a step; must be called before the next batch is returned. On a lazy
  /// device, starts the program of all operators that have been recorded since
  /// the last batch.
  void end_step() const;

  /// Tensors that are being copied to the device. Do not use the tensors before
  /// `finish`.
  struct PendingCopy {
    std::vector<at::Tensor> tensors;
    std::vector<bool> are_copies;
    /// Null if the tensors may be used immediately.
    std::shared_ptr<c10::Event> done;
  };
  /// Starts copying tensors to the device.
  PendingCopy begin(
      const std::vector<at::Tensor>& tensors, bool non_blocking) const;
  /// Makes the current stream wait for the copies. Work that is already queued
  /// on this stream can overlap with the copies.
  void finish(const PendingCopy& pending) const;

  /// Copies tensors to the device, for use on the current stream. Copies from
  /// pinned memory never block the CPU. `non_blocking` is passed to LibTorch
  /// for copies from other memory.
  std::vector<at::Tensor> copy(
      const std::vector<at::Tensor>& tensors, bool non_blocking) const;

 private:
  at::Tensor copied(const at::Tensor& tensor, bool non_blocking) const;

  c10::Device device_;
  LazyDevice* lazy_;  ///< Null if operators run when they are called.
  c10::Stream stream_;
};

}  // namespace accelerate
