// SPDX-License-Identifier: Apache-2.0
// What an optimizer remembers, by parameter name: for checkpoints and for
// bindings of other languages.
//
//     const auto names = accelerate::parameter_names(optimizer, named);
//     auto state = accelerate::optimizer_state(optimizer, names);
//     accelerate::load_optimizer_state(other_optimizer, state, names);
//
// Covers our AdamW, Adam and SGD and LibTorch's SGD, Adam, AdamW, RMSprop,
// Adagrad and LBFGS, and any `StatefulOptimizer`. Ours and LibTorch's of one
// name read each other's state.
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
/// for each tensor. `scalars` is an object:
///
///     {"optimizer": "AdamW",
///      "state": {"head.weight": {"step": 12}},
///      "param_groups": [{"params": ["head.weight"], "lr": 0.001, …}]}
///
/// A parameter that never had a gradient is in neither.
struct OptimizerState {
  std::map<std::string, at::Tensor> tensors;
  Json scalars;
};

/// Meant for subclassing: a second base class of optimizers that keep their
/// state in a way of their own, those of another language for example. With it
/// `optimizer_state` and checkpoints know them too.
class ACCELERATE_API StatefulOptimizer {
 public:
  virtual ~StatefulOptimizer();

  /// The state, with `names` for the parameters, group after group.
  virtual OptimizerState save_optimizer_state(
      const std::vector<std::string>& names) const = 0;
  /// Checks a state, throws `FormatError` when it does not fit, and returns
  /// what takes it over. Nothing changes before that is called.
  virtual std::function<void()> stage_optimizer_state(
      const OptimizerState& state, const std::vector<std::string>& names) = 0;

 protected:
  StatefulOptimizer() = default;
  StatefulOptimizer(const StatefulOptimizer&) = default;
  StatefulOptimizer& operator=(const StatefulOptimizer&) = default;
};

/// The state of an optimizer. The tensors are those it works with, not copies.
///
/// `names` are those of its parameters, group after group; without any they
/// are `0`, `1`, …. Throws `UnsupportedError` for a kind of optimizer that is
/// not listed above, `ArgumentError` when there are not as many names as
/// parameters or two are equal. Reads step counts from the device.
[[nodiscard]] ACCELERATE_API OptimizerState optimizer_state(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::string>& names = {});

/// Gives an optimizer the state and the options of another. Tensors are copied
/// to the device and type of their parameter.
///
/// Throws `FormatError` that lists what is missing, left over or of the wrong
/// shape; then nothing has changed.
ACCELERATE_API void load_optimizer_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names = {});

/// The names of an optimizer's parameters, group after group, found by
/// identity among `named`; the first name of a tied one.
///
/// Throws `ArgumentError` that says which parameters have none.
[[nodiscard]] ACCELERATE_API std::vector<std::string> parameter_names(
    const torch::optim::Optimizer& optimizer,
    const std::vector<std::pair<std::string, at::Tensor>>& named);

}  // namespace accelerate
