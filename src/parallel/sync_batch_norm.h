// SPDX-License-Identifier: Apache-2.0
// Batch norm with the statistics of all ranks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "parallel/interception.h"
#include "parallel/operator_collectives.h"

namespace accelerate {

/// The mark of one batch norm. In training, `aten::batch_norm` with a marked
/// tensor normalizes with the mean and variance of the rows of all ranks, and
/// its backward pass with the gradient sums of all ranks. The gradients of
/// weight and bias are those of this rank; the strategy averages them.
///
/// Ranks may have different numbers of rows, or none. Statistics are computed
/// in fp32, or in fp64 for fp64 inputs, and combined in fp64.
class SyncBatchNorm : public Interceptor {
 public:
  struct Options {
    /// The name of the module in error messages.
    std::string name;
    /// Null with one process: only notes that the operator was reached.
    std::shared_ptr<OperatorCollectives> collectives = nullptr;
    /// Whether the module is in training mode. A batch norm without running
    /// statistics uses those of the batch in evaluation too, and these are not
    /// synchronized.
    std::function<bool()> is_training = {};
  };

  explicit SyncBatchNorm(Options options);

  void intercept(InterceptedCall& call) override;

  /// Whether a batch norm got the marked tensor at least once.
  bool was_reached() const { return reached_; }
  const std::string& name() const { return options_.name; }

 private:
  Options options_;
  std::atomic<bool> reached_ = false;
};

}  // namespace accelerate
