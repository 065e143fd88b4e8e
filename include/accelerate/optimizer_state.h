// SPDX-License-Identifier: Apache-2.0
// The state of an optimizer by parameter name, for checkpoints and for
// bindings to other languages.
//
//     const auto names = accelerate::parameter_names(optimizer, named);
//     auto state = accelerate::optimizer_state(optimizer, names);
//     accelerate::load_optimizer_state(other_optimizer, state, names);
//
// Supports this library's AdamW, Adam and SGD; LibTorch's SGD, Adam, AdamW,
// RMSprop, Adagrad and LBFGS; and any `StatefulOptimizer`. Optimizers with the
// same name in both libraries can load each other's state.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace accelerate {

/// The state of an optimizer.
///
/// `tensors` has an entry `<parameter>.<slot>`, such as `head.weight.exp_avg`,
/// for each tensor in the state. `scalars` is an object:
///
///     {"optimizer": "AdamW",
///      "state": {"head.weight": {"step": 12}},
///      "param_groups": [{"params": ["head.weight"], "lr": 0.001, …}]}
///
/// A parameter that never had a gradient has no entry in `tensors` or `state`.
struct OptimizerState {
  std::map<std::string, at::Tensor> tensors;
  Json scalars;
};

/// A second base class, next to `torch::optim::Optimizer`, for user-defined
/// optimizers that store their state in their own way, for example optimizers
/// written in another language. With this base class, `optimizer_state` and
/// checkpoints work with such optimizers.
class ACCELERATE_API StatefulOptimizer {
 public:
  virtual ~StatefulOptimizer();

  /// Returns the state. `names` are the parameter names, in the order of the
  /// parameter groups.
  virtual OptimizerState save_optimizer_state(
      const std::vector<std::string>& names) const = 0;
  /// Checks a state and returns a function that loads it. The optimizer does
  /// not change until the returned function is called. Throws `FormatError`
  /// when the state does not match the optimizer.
  virtual std::function<void()> stage_optimizer_state(
      const OptimizerState& state, const std::vector<std::string>& names) = 0;

 protected:
  StatefulOptimizer() = default;
  StatefulOptimizer(const StatefulOptimizer&) = default;
  StatefulOptimizer& operator=(const StatefulOptimizer&) = default;
};

/// Returns the state of an optimizer. The tensors are not copied.
///
/// `names` are the parameter names in the order of the parameter groups;
/// default: `0`, `1`, …. Waits for the device, to read step counts. Throws
/// `UnsupportedError` for an optimizer that is not listed at the top of
/// optimizer_state.h, and `ArgumentError` when the number of names is wrong or
/// two names are the same.
[[nodiscard]] ACCELERATE_API OptimizerState optimizer_state(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::string>& names = {});

/// Loads a state into an optimizer, including the options of its parameter
/// groups. Tensors are copied to the device and data type of their parameter.
///
/// Throws a `FormatError` that lists every missing or unexpected entry and
/// every wrong shape. In that case the optimizer is unchanged.
ACCELERATE_API void load_optimizer_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names = {});

/// Returns the names of an optimizer's parameters, in the order of the
/// parameter groups. `named` lists all parameters of a model with their names.
/// A tied parameter gets the first of its names.
///
/// Throws an `ArgumentError` that lists the parameters without a name.
[[nodiscard]] ACCELERATE_API std::vector<std::string> parameter_names(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::pair<std::string, at::Tensor>>& named);

}  // namespace accelerate
