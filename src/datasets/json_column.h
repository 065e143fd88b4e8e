// SPDX-License-Identifier: Apache-2.0
// Converts JSON values to cells and infers the types of JSON columns, as
// Hugging Face Datasets does with Arrow.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "accelerate/json.h"
#include "transformers/dataset.h"

namespace transformers::datasets {

/// Converts a JSON value to a cell. Returns nothing for objects, nested lists
/// and lists with elements of different types.
std::optional<Value> to_value(const accelerate::Json& json);

/// Converts an empty list, a number or a list of numbers to the type of the
/// column. Returns other values unchanged.
Value as_column_value(Value value, ColumnType type);

/// Infers the type of one column from its values.
class JsonColumn {
 public:
  explicit JsonColumn(std::optional<ColumnType> explicit_type)
      : type_(explicit_type), is_explicit_(explicit_type.has_value()) {}

  /// Adds a value. Returns a description of the problem if the value does not
  /// match the earlier values. If `is_first_part` is false, whole real numbers
  /// do not change the type of a column of integers.
  std::optional<std::string> add(const Value& value, bool is_first_part);

  /// Records whether `value` contains text that is not a time; see `end_part`.
  void add_text(const Value& value, std::size_t offset);

  struct Time {
    std::size_t offset = 0;
    std::string text;
  };

  /// Ends a part of the data; Hugging Face Datasets reads each file in parts.
  /// If every string in the part is a time, returns the first string.
  std::optional<Time> end_part();

  ColumnType type() const;

 private:
  bool is_whole(ColumnType type, const Value& value) const;
  void add_text(const std::string& text, std::size_t offset);

  std::optional<ColumnType> type_;
  bool is_explicit_;
  bool has_empty_list_ = false;
  bool only_times_ = true;
  std::optional<Time> first_time_;
};

}  // namespace transformers::datasets
