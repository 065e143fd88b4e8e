// SPDX-License-Identifier: Apache-2.0
// Encodes infinities and NaN, which JSON does not support. Saved states contain
// them: a best loss, for example, starts at infinity.
#pragma once

#include "accelerate/json.h"

namespace accelerate {

/// Returns `value` with an object in place of each number that is not finite:
/// `{"not_finite": "-Infinity"}`.
Json without_infinities(const Json& value);

/// The inverse of `without_infinities`.
Json with_infinities(const Json& value);

}  // namespace accelerate
