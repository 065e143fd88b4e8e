// SPDX-License-Identifier: Apache-2.0
// Access to an optimizer's momentum: the option `momentum`, or the first of
// `betas`.
#pragma once

#include <torch/optim/optimizer.h>

namespace accelerate {

/// Returns whether the optimizer has the option `momentum` or the option
/// `betas`.
bool has_momentum(torch::optim::Optimizer& optimizer);

/// Sets `momentum` or the first of `betas` to `value` in each parameter group.
void set_momentum(torch::optim::Optimizer& optimizer, double value);

}  // namespace accelerate
