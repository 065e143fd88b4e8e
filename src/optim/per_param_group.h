// SPDX-License-Identifier: Apache-2.0
// Options that have either one value or one value for each parameter group.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace accelerate {

/// Returns one value for each of the `groups` parameter groups. A single value
/// in `values` is repeated. If `values` has neither 1 nor `groups` elements,
/// throws an `ArgumentError` that names the option.
std::vector<double> per_param_group(
    std::string_view option,
    const std::vector<double>& values,
    std::size_t groups);

}  // namespace accelerate
