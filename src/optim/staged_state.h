// SPDX-License-Identifier: Apache-2.0
// An optimizer's state, checked first and given to it later.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "accelerate/optimizer_state.h"

namespace accelerate {

/// Whether an optimizer may work with the tensors it is given.
enum class Adopt { no, yes };

/// Does everything of `load_optimizer_state` that can fail; the result does
/// the rest. Both arguments must outlive it.
///
/// With `Adopt::yes` tensors that are as the optimizer would make them are
/// taken instead of copied: nobody else may use them afterwards.
std::function<void()> stage_optimizer_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerState& state,
    const std::vector<std::string>& names,
    Adopt adopt = Adopt::no);

}  // namespace accelerate
