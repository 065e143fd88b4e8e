// SPDX-License-Identifier: Apache-2.0
// Types of cells: found out, checked, joined.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transformers/dataset.h"

namespace transformers::datasets {

/// The type of a value; none for a missing one.
std::optional<ColumnType> type_of(const Value& value);

/// The type that holds values of both, if there is one: integers are real
/// numbers too.
std::optional<ColumnType> joined_type(ColumnType one, ColumnType other);

/// `value` as one of `type`, which `joined_type` gave.
Value as_type(Value value, ColumnType type);

/// Text as a value of a scalar type; nothing when it is not one. Empty text
/// is a missing value, but for strings.
std::optional<Value> parse_value(std::string_view text, ColumnType type);

/// "a whole number", for errors.
std::string_view described(ColumnType type);

/// Finds a column's type from the texts of its cells.
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
