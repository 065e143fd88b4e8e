// SPDX-License-Identifier: Apache-2.0
// The same model on every rank.
#pragma once

#include <vector>

#include "accelerate/group.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// Each tensor once, under the first of its names: tied weights appear in
/// several modules.
NamedTensors without_repeats(const NamedTensors& tensors);

/// Those that need gradients.
NamedTensors trainable(const NamedTensors& tensors);

/// Throws `MismatchError` with a list of what differs unless all ranks have
/// the same names, types and shapes in the same order.
///
/// Collective.
void check_same_model(
    const Group& group,
    const NamedTensors& parameters,
    const NamedTensors& buffers);

}  // namespace accelerate
