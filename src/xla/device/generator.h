// SPDX-License-Identifier: Apache-2.0
// Random numbers of the XLA device.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Generator.h>

#include "xla/graph/node.h"

namespace accelerate::xla {

/// A seed and a count of the random operators recorded so far: together they
/// determine the next operator's bits, on any number of devices.
at::Generator make_generator();
const at::Generator& default_generator();

/// Random bits for the next operator, from `generator` or the default one.
/// Successive calls give independent bits; the program stays the same.
Value next_random_bits(
    const std::optional<at::Generator>& generator,
    ElementType type,
    const Shape& shape);

}  // namespace accelerate::xla
