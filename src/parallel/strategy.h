// SPDX-License-Identifier: Apache-2.0
// The strategy with which the ranks of a run train their models together.
//
//     auto strategy = make_strategy(group, options);
//     strategy->replicate(parameters, buffers);
//     auto path = strategy->make_path(trainable);
//
//     strategy->begin_backward({{path.get(), Sync::now}});
//     try { loss.backward(); }
//     catch (...) { strategy->fail_backward(); throw; }
//     strategy->end_backward();
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/group.h"
#include "parallel/bucket.h"
#include "parallel/gradient_path.h"
#include "parallel/operator_collectives.h"

namespace accelerate {

class LazyDevice;

/// The elements `offset` … `offset + length - 1` of a flattened tensor.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

/// How the ranks of a run divide the work of training. `prepare`, `backward`
/// and checkpoints depend only on the strategy, not on the number of ranks.
///
/// Thread safety: call the members only from the thread that runs the training
/// loop.
class Strategy {
 public:
  /// The gradients of one model in a backward pass.
  struct Participant {
    GradientPath* path = nullptr;
    Sync sync = Sync::now;
  };

  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  /// Makes the model equal on all ranks: overwrites the tensors with the
  /// tensors of rank 0. Collective.
  ///
  /// Throws `MismatchError` if the ranks' models have different parameters or
  /// buffers.
  virtual void replicate(
      const NamedTensors& parameters, const NamedTensors& buffers) = 0;
  /// Overwrites the tensors with the tensors of rank `from`. Collective.
  virtual void broadcast(
      const std::vector<at::Tensor>& tensors, int from = 0) = 0;
  /// Creates the gradient path of a model. `trainable` must be the same list on
  /// every rank. Collective.
  virtual std::unique_ptr<GradientPath> make_path(NamedTensors trainable) = 0;

  /// Prepares for a backward pass. `participants` has the gradient paths of all
  /// models that are trained; the paths must outlive the backward pass.
  virtual void begin_backward(std::vector<Participant> participants) = 0;
  /// Finishes a backward pass that has returned. Afterwards, the gradients of
  /// all participants with `Sync::now` are final. Collective if a participant
  /// has `Sync::now` or `Sync::hidden`, or if `operator_collectives` was called
  /// before.
  ///
  /// Ends all paths even if one of them throws; then throws the first error.
  virtual void end_backward() = 0;
  /// Cleans up after a backward pass that has thrown: drops all accumulated
  /// gradients and notifies the other ranks.
  virtual void fail_backward() noexcept = 0;
  /// Takes part in a backward pass of the other ranks with a zero contribution;
  /// for a rank that has run out of batches. Collective.
  virtual void join_backward(const std::vector<GradientPath*>& paths) = 0;

  /// Returns the collectives that operators start inside forward and backward
  /// passes; null with one process. After the first call, which every rank must
  /// make, gradients are reduced only at the end of a backward pass.
  virtual std::shared_ptr<OperatorCollectives> operator_collectives() = 0;

  /// Returns the elements of `parameter` that this rank updates. The rank holds
  /// the optimizer state of only these elements.
  virtual FlatRange owned_range(const at::Tensor& parameter) const = 0;
  /// Returns why a whole backward pass cannot be captured in a CUDA graph.
  /// Empty if a backward pass can be captured.
  virtual std::string capture_obstacle() const = 0;
};

/// Returns the strategy for the ranks of `group`: one process, or data parallel
/// if gradients must be averaged across ranks. If `lazy` is not null, the run
/// has one process, which trains on the device `lazy`.
std::unique_ptr<Strategy> make_strategy(
    const Group& group,
    const BucketOptions& buckets,
    LazyDevice* lazy = nullptr);

}  // namespace accelerate
