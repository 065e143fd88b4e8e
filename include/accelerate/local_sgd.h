// SPDX-License-Identifier: Apache-2.0
// Local SGD: processes train independently and average their parameters every
// few steps.
//
//     accelerate::LocalSGD local(accelerator, *model, {.local_sgd_steps = 8});
//     for (auto& batch : loader) {
//       accelerator.backward(loss_of(model, batch));
//       optimizer.step();
//       optimizer.zero_grad();
//       local.step();
//     }
#pragma once

#include <cstdint>
#include <optional>

#include "accelerate/accelerator.h"
#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

struct LocalSGDOptions {
  /// Number of optimizer steps after which the parameters are averaged.
  std::int64_t local_sgd_steps = 8;
  /// If false, gradients are averaged in each step, as without `LocalSGD`.
  bool enabled = true;
};

/// While this object exists, each process uses only its own gradients. The
/// parameters are averaged across processes every few steps and once more at
/// the end.
///
/// Thread safety: use this object only from the thread that runs the training
/// loop.
class ACCELERATE_API LocalSGD {
 public:
  /// Throws `ArgumentError` if `local_sgd_steps` is below 1.
  LocalSGD(
      Accelerator& accelerator,
      torch::nn::Module& model,
      const LocalSGDOptions& options = {});
  LocalSGD(const LocalSGD&) = delete;
  LocalSGD& operator=(const LocalSGD&) = delete;
  /// Same as `finish`, but prints errors to stderr instead of throwing. Does
  /// nothing while an exception unwinds the stack.
  ~LocalSGD();

  /// Counts one optimizer step. Every `local_sgd_steps` calls, averages the
  /// parameters; only these calls are collective.
  void step();
  /// Averages the parameters one last time and ends local training. Collective.
  void finish();

 private:
  void average() const;

  Accelerator& accelerator_;
  torch::nn::Module& model_;
  LocalSGDOptions options_;
  std::optional<Region> local_;
  std::int64_t steps_ = 0;
  int exceptions_;
};

}  // namespace accelerate
