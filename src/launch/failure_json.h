// SPDX-License-Identifier: Apache-2.0
// Serializes a failure to send it to another machine.
#pragma once

#include "accelerate/json.h"
#include "launch/failure.h"

namespace accelerate {

Json failure_to_json(const Failure& failure);
/// Reads a failure from JSON. Throws `FormatError` if a field is missing or has
/// the wrong type.
Failure failure_from_json(const Json& json);

}  // namespace accelerate
