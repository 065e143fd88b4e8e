// SPDX-License-Identifier: Apache-2.0
// Options that are one value, or one for each parameter group.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace accelerate {

/// The values, repeated if there is one; throws `ArgumentError` with the name
/// of the option unless there are one or `groups`.
std::vector<double> per_group(
    std::string_view option,
    const std::vector<double>& values,
    std::size_t groups);

}  // namespace accelerate
