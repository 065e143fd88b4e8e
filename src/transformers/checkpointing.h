// SPDX-License-Identifier: Apache-2.0
// A part of a model that is computed twice to be remembered less.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

namespace transformers {

/// `body(input)`, without keeping what its backward needs: that is computed
/// again then, with the same random numbers and the same autocast.
at::Tensor checkpoint(
    const std::function<at::Tensor(const at::Tensor&)>& body,
    const at::Tensor& input);

}  // namespace transformers
