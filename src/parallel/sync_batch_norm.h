// SPDX-License-Identifier: Apache-2.0
// Batch norm with the statistics of all ranks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "device/interception.h"
#include "parallel/operator_collectives.h"

namespace accelerate {

/// Synchronizes one batch norm. One tensor of the batch norm is marked with
/// this object, so that `intercept` gets each operator call that uses the
/// tensor. In training, the forward pass of `aten::batch_norm` uses the mean
/// and variance of the rows of all ranks, and the backward pass uses the
/// gradient sums of all ranks. The gradients of weight and bias are local to
/// this rank; the strategy averages them.
///
/// Ranks may have different numbers of rows, or none. Statistics are computed
/// in fp32, or in fp64 for fp64 inputs, and combined in fp64.
class SyncBatchNorm : public Interceptor {
 public:
  struct Options {
    /// The name of the module in error messages.
    std::string name;
    /// Null with one process: nothing is synchronized then, but `was_reached`
    /// still works.
    std::shared_ptr<OperatorCollectives> collectives = nullptr;
    /// Whether the module is in training mode. During evaluation, nothing is
    /// synchronized, even if the batch norm has no running statistics and uses
    /// the statistics of the batch.
    std::function<bool()> is_training = {};
  };

  explicit SyncBatchNorm(Options options);

  void intercept(InterceptedCall& call) override;

  /// Returns whether `aten::batch_norm` was called with the marked tensor at
  /// least once.
  bool was_reached() const { return reached_; }
  const std::string& name() const { return options_.name; }

 private:
  Options options_;
  std::atomic<bool> reached_ = false;
};

}  // namespace accelerate
