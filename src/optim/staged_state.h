// SPDX-License-Identifier: Apache-2.0
// Loads an optimizer's state in two steps: first checks the state, then applies
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/optimizer_state.h"

namespace accelerate {

/// Whether an optimizer may use the loaded tensors without copying them.
enum class Adopt { no, yes };

/// Runs the part of `load_optimizer_state` that can fail, and returns a
/// function that runs the rest. `optimizer` and `state` must outlive that
/// function.
///
/// With `Adopt::yes`, a tensor in `state` that already has the required device,
/// type and layout becomes part of the optimizer's state without a copy. The
/// caller must not use such tensors afterwards.
std::function<void()> stage_optimizer_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names,
    Adopt adopt = Adopt::no);

}  // namespace accelerate
