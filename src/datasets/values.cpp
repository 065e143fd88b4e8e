// SPDX-License-Identifier: Apache-2.0
#include "datasets/values.h"

#include <cmath>
#include <utility>

#include "accelerate/error.h"

namespace transformers {

std::string_view name_of(ColumnType type) {
  switch (type) {
    case ColumnType::string:
      return "string";
    case ColumnType::integer:
      return "integer";
    case ColumnType::real:
      return "real";
    case ColumnType::boolean:
      return "boolean";
    case ColumnType::strings:
      return "strings";
    case ColumnType::integers:
      return "integers";
    case ColumnType::reals:
      return "reals";
  }
  throw accelerate::InternalError("a column type has no name");
}

namespace datasets {

std::optional<ColumnType> type_of(const Value& value) {
  switch (value.index()) {
    case 1:
      return ColumnType::boolean;
    case 2:
      return ColumnType::integer;
    case 3:
      return ColumnType::real;
    case 4:
      return ColumnType::string;
    case 5:
      return ColumnType::integers;
    case 6:
      return ColumnType::reals;
    case 7:
      return ColumnType::strings;
    default:
      return std::nullopt;
  }
}

std::optional<ColumnType> common_type(ColumnType first, ColumnType second) {
  if (first == second) {
    return first;
  }
  const auto both = [&](ColumnType a, ColumnType b) {
    return (first == a && second == b) || (first == b && second == a);
  };
  if (both(ColumnType::integer, ColumnType::real)) {
    return ColumnType::real;
  }
  if (both(ColumnType::integers, ColumnType::reals)) {
    return ColumnType::reals;
  }
  return std::nullopt;
}

Value as_type(Value value, ColumnType type) {
  if (type == ColumnType::real) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      return static_cast<double>(*integer);
    }
  }
  if (type == ColumnType::reals) {
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      return std::vector<double>(list->begin(), list->end());
    }
  }
  return value;
}

std::optional<std::int64_t> whole(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(value >= -kLimit && value < kLimit) || std::trunc(value) != value) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

std::string_view described(ColumnType type) {
  switch (type) {
    case ColumnType::string:
      return "a string";
    case ColumnType::integer:
      return "a 64-bit integer";
    case ColumnType::real:
      return "a number";
    case ColumnType::boolean:
      return "a boolean";
    case ColumnType::strings:
      return "a list of strings";
    case ColumnType::integers:
      return "a list of integers";
    case ColumnType::reals:
      return "a list of numbers";
  }
  throw accelerate::InternalError("a column type has no description");
}

}  // namespace datasets
}  // namespace transformers
