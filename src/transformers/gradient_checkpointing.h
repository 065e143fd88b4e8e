// SPDX-License-Identifier: Apache-2.0
// Gradient checkpointing: recomputes a part of a model in the backward pass to
// save memory.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace transformers {

/// Returns `body(input)` without storing its activations. The backward pass
/// calls `body` again, with the same random numbers and the same autocast
/// settings.
at::Tensor checkpoint(
    const std::function<at::Tensor(const at::Tensor&)>& body,
    const at::Tensor& input);

}  // namespace transformers
