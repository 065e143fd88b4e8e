// SPDX-License-Identifier: Apache-2.0
// Checks and combines the types of values.
#pragma once

#include <optional>
#include <string_view>

#include "transformers/dataset.h"

namespace transformers::datasets {

/// Returns the type of a value, or nothing for a missing value.
std::optional<ColumnType> type_of(const Value& value);

/// Returns the type that can hold values of both types, if there is one.
/// Integers can be stored as real numbers.
std::optional<ColumnType> common_type(ColumnType first, ColumnType second);

/// Converts a value to `type`, which must be able to hold the value (see
/// `common_type`).
Value as_type(Value value, ColumnType type);

/// Returns the 64-bit integer with this value, if there is one.
std::optional<std::int64_t> whole(double value);

/// Returns a description of a type for error messages, such as "a 64-bit
/// integer".
std::string_view described(ColumnType type);

}  // namespace transformers::datasets
