// SPDX-License-Identifier: Apache-2.0
// An optimizer's state, checked first and given to it later.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/optimizer_state.h"

namespace accelerate {

/// Does everything of `load_optimizer_state` that can fail; the result does
/// the rest. Both arguments must outlive it.
std::function<void()> stage_optimizer_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names);

}  // namespace accelerate
