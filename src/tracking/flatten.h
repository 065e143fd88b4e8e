// SPDX-License-Identifier: Apache-2.0
// Configurations in the forms that trackers need.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

/// Returns the members of a configuration. The names of nested members are
/// joined with `/`.
std::vector<std::pair<std::string, Json>> flatten_json(const Json& config);

/// Returns a number as JSON: as text if it is not finite.
Json json_number(double value);

/// Returns `value`, with numbers that are not finite written as text.
Json writable_json(const Json& value);

}  // namespace accelerate
