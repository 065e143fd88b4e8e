// SPDX-License-Identifier: Apache-2.0
// Encodes infinities and NaN, which JSON does not support. Saved states can
// contain such numbers; for example, the best loss so far is initially
// infinity.
#pragma once

#include "accelerate/json.h"

namespace accelerate {

/// Replaces each number in `value` that is not finite with an object such as
/// `{"not_finite": "-Infinity"}`.
Json without_infinities(const Json& value);

/// The inverse of `without_infinities`.
Json with_infinities(const Json& value);

}  // namespace accelerate
