// SPDX-License-Identifier: Apache-2.0
// The batch norms that use the statistics of all processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/fwd.h"
#include "parallel/strategy.h"
#include "parallel/sync_batch_norm.h"

namespace accelerate {

/// Marks one tensor of each batch norm, so that a `SyncBatchNorm` intercepts
/// the operators that use the tensor, and checks that the marks had an effect.
///
/// A batch norm stays synchronized as long as it exists.
class SyncBatchNorms {
 public:
  /// One batch norm. Its tensors may be undefined.
  struct BatchNorm {
    std::string name;
    at::Tensor weight;
    at::Tensor running_mean;
    /// The number of forward passes in training mode.
    at::Tensor num_batches_tracked;
    std::function<bool()> is_training;
  };

  /// `strategy` must outlive this object.
  explicit SyncBatchNorms(Strategy& strategy) : strategy_(strategy) {}

  /// Synchronizes all batch norms in `model` that are not synchronized yet.
  /// Every rank must call this function with the same model.
  ///
  /// Throws `ArgumentError` if a batch norm has no tensor to mark.
  void convert(torch::nn::Module& model);
  void convert(const BatchNorm& batch_norm);

  /// Returns whether forward passes may contain collectives, that is, whether
  /// there are several ranks and a synchronized batch norm.
  bool communicate();

  /// Throws `StateError` if a batch norm was used in training, but its operator
  /// did not get the marked tensor, so that nothing was synchronized. Must be
  /// called when gradients are complete.
  void check_reached();

 private:
  using WeakTensor =
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  /// A synchronized batch norm. Does not keep the tensors of the batch norm
  /// alive.
  struct Converted {
    std::shared_ptr<const SyncBatchNorm> mark;
    WeakTensor marked;
    WeakTensor weight;
    WeakTensor num_batches_tracked;
    double passes_before = 0;

    bool was_used() const;
  };

  Strategy& strategy_;
  std::vector<Converted> converted_;
};

}  // namespace accelerate
