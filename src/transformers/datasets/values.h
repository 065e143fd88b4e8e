// SPDX-License-Identifier: Apache-2.0
// Infers, checks and combines the types of cells.
#pragma once

#include <optional>
#include <string>
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

/// Parses a value of a scalar type. Returns nothing if the text does not match
/// the type. Empty text is a missing value, except for strings.
std::optional<Value> parse_value(std::string_view text, ColumnType type);

/// Returns a description of a type for error messages, such as "a 64-bit
/// integer".
std::string_view described(ColumnType type);

/// Infers the type of a column from the text of its cells.
class TypeGuess {
 public:
  void add(std::string_view text);
  ColumnType result() const;

 private:
  bool seen_ = false;
  bool integer_ = true;
  bool real_ = true;
  bool boolean_ = true;
};

}  // namespace transformers::datasets
