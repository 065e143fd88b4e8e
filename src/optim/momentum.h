// SPDX-License-Identifier: Apache-2.0
// The momentum of optimizers that have one, under whichever name.
#pragma once

#include <torch/optim/optimizer.h>

namespace accelerate {

/// Whether the optimizer has a `momentum` or `betas`.
bool has_momentum(torch::optim::Optimizer& optimizer);

/// Sets `momentum`, or the first of `betas`, of each group.
void set_momentum(torch::optim::Optimizer& optimizer, double value);

}  // namespace accelerate
