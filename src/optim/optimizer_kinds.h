// SPDX-License-Identifier: Apache-2.0
// The types of optimizers whose state can be saved: the optimizers of this
// library and of LibTorch.
#pragma once

#include <memory>

#include <torch/optim/optimizer.h>

#include "optim/state_archive.h"

namespace accelerate {

struct OptimizerKind {
  /// The name of the optimizer. This library's class and the equivalent
  /// LibTorch class have the same name.
  const char* name;
  bool (*matches)(const torch::optim::Optimizer&);
  std::unique_ptr<torch::optim::OptimizerParamState> (*make_state)();
  void (*visit_state)(torch::optim::OptimizerParamState&, StateArchive&);
  void (*visit_options)(torch::optim::OptimizerOptions&, StateArchive&);
};

/// Returns the kind of `optimizer`. Throws `UnsupportedError` if the type of
/// the optimizer is unknown.
const OptimizerKind& kind_of(const torch::optim::Optimizer& optimizer);
/// Returns the kind of `optimizer`, or null if the type of the optimizer is
/// unknown.
const OptimizerKind* find_kind(const torch::optim::Optimizer& optimizer);

}  // namespace accelerate
