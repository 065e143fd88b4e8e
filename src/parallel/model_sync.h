// SPDX-License-Identifier: Apache-2.0
// Checks that every rank has the same model.
#pragma once

#include <vector>

#include "accelerate/group.h"
#include "parallel/gradient_path.h"

namespace accelerate {

/// Returns each tensor only once, under its first name. In `tensors`, a tied
/// weight may appear under several names.
NamedTensors without_repeats(const NamedTensors& tensors);

/// Returns the tensors that require gradients.
NamedTensors trainable(const NamedTensors& tensors);

/// Throws `MismatchError` with a list of the differences unless the tensors
/// have the same names, types and shapes in the same order on all ranks.
///
/// Collective.
void check_same_model(
    const Group& group,
    const NamedTensors& parameters,
    const NamedTensors& buffers);

}  // namespace accelerate
