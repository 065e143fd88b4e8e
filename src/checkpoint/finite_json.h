// SPDX-License-Identifier: Apache-2.0
// JSON has no word for numbers that are not finite, and states have such
// numbers: a best loss that nobody has reached yet.
#pragma once

#include "accelerate/json.h"

namespace accelerate {

/// `value` with an object in place of each such number:
/// `{"not_finite": "-Infinity"}`.
Json without_infinities(const Json& value);

/// What `without_infinities` was given.
Json with_infinities(const Json& value);

}  // namespace accelerate
