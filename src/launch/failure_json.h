// SPDX-License-Identifier: Apache-2.0
// A failure on its way to another machine.
#pragma once

#include "accelerate/json.h"
#include "launch/failure.h"

namespace accelerate {

Json failure_to_json(const Failure& failure);
/// Throws `FormatError` when a field is missing or of the wrong type.
Failure failure_from_json(const Json& json);

}  // namespace accelerate
