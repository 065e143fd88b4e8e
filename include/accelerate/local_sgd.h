// SPDX-License-Identifier: Apache-2.0
// Processes that train on their own and meet now and then.
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
  /// Optimizer steps between two averagings of the parameters.
  std::int64_t local_sgd_steps = 8;
  /// Off: an ordinary run that averages gradients in each step.
  bool enabled = true;
};

/// Keeps gradients local while it lives, and averages parameters every few
/// steps and at its end.
///
/// Thread safety: the thread of the training loop.
class ACCELERATE_API LocalSGD {
 public:
  /// Throws `ArgumentError` for fewer than one step.
  LocalSGD(
      Accelerator& accelerator,
      torch::nn::Module& model,
      const LocalSGDOptions& options = {});
  LocalSGD(const LocalSGD&) = delete;
  LocalSGD& operator=(const LocalSGD&) = delete;
  /// As `finish`, but reports an error to stderr; does nothing while an
  /// exception unwinds.
  ~LocalSGD();

  /// Counts one optimizer step. Collective every `local_sgd_steps` calls.
  void step();
  /// Averages a last time and ends. Collective.
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
