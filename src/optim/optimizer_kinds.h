// SPDX-License-Identifier: Apache-2.0
// The optimizers whose inside we know: ours and LibTorch's.
#pragma once

#include <memory>

#include <torch/optim/optimizer.h>

#include "optim/state_archive.h"

namespace accelerate {

struct OptimizerKind {
  /// Shared by our class and LibTorch's of the same meaning.
  const char* name;
  bool (*matches)(const torch::optim::Optimizer&);
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)();
  void (*visit_state)(torch::optim::OptimizerParamState&, StateArchive&);
  void (*visit_options)(torch::optim::OptimizerOptions&, StateArchive&);
};

/// Throws `UnsupportedError` for an optimizer of another kind.
const OptimizerKind& kind_of(const torch::optim::Optimizer& optimizer);
/// The same, null for another kind.
const OptimizerKind* find_kind(const torch::optim::Optimizer& optimizer);

}  // namespace accelerate
