// SPDX-License-Identifier: Apache-2.0
// Random numbers of the XLA device.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Generator.h>

#include "xla/graph/node.h"

namespace accelerate::xla {

/// Returns a new generator. Its state is a seed and the number of random
/// operators recorded so far. Together, they determine the random bits of the
/// next operator, regardless of the number of devices.
at::Generator make_generator();
const at::Generator& default_generator();

/// Returns random bits for the next operator, from `generator` or, if it is not
/// set, from the default generator. Each call returns independent bits. The
/// seed and the number of earlier operators are arguments of the compiled
/// program, so new bits do not require another compilation.
Value next_random_bits(
    const std::optional<at::Generator>& generator,
    ElementType type,
    const Shape& shape);

}  // namespace accelerate::xla
