// SPDX-License-Identifier: Apache-2.0
// Captures the forward and the backward of a function as two device graphs. The
// results of a replay can be differentiated, as if the function had been
// called.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "device/step_recorder.h"

namespace accelerate {

/// NOTE [Differentiable step]: a capture consists of two graphs, forward and
/// backward. A replay launches the forward graph and copies the outputs into
/// tensors that the caller owns. The autograd graph of these tensors is one
/// node; its backward replays the backward graph. The captured gradients become
/// the parameters' `.grad` without a copy. The next backward overwrites the
/// captured gradients, so a `.grad` that still uses the memory of a captured
/// gradient is cloned first.
///
/// The next replay of forward would overwrite the activations that a pending
/// backward needs. Therefore, a call runs eagerly while an earlier call waits
/// for its backward. Calls without gradients run eagerly, and so do calls with
/// inputs or parameters that are not on the device of the first parameter. A
/// call is not captured if a parameter has hooks, or if the gradients of all
/// captures would take more than a quarter of the device's memory.
///
/// Thread safety: only one thread at a time may use the object. Backward may
/// run on another thread.
class ACCELERATE_API DifferentiableStep : public RecorderClient {
 public:
  /// `parameters` must contain every tensor that the function reads but does
  /// not get as an input, and every tensor whose gradient is needed.
  /// `parameters` must not be empty.
  explicit DifferentiableStep(Tensors parameters);
  ~DifferentiableStep() override;

  c10::Device device() const override;
  std::optional<std::string> why_eager(const Tensors& inputs) override;
  std::vector<const void*> addresses() override;
  std::shared_ptr<CapturedStep> capture(
      CaptureDevice& device, const Tensors& inputs, const Body& body) override;

  struct Captured;
  struct LastCall;

 private:
  void check_parameters(const CaptureDevice& device) const;

  Tensors parameters_;
  std::unique_ptr<LastCall> last_call_;
};

}  // namespace accelerate
