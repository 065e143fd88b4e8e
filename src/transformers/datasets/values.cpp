// SPDX-License-Identifier: Apache-2.0
#include "transformers/datasets/values.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "accelerate/error.h"
#include "base/text.h"

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
namespace {

std::string_view without_plus(std::string_view text) {
  const bool plus =
      text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") {
    return true;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    return false;
  }
  return std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  text = without_plus(text);
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return accelerate::parse_integer(without_plus(text));
}

// Integers of more than 63 bits would lose digits as floating-point numbers.
bool only_digits(std::string_view text) {
  text = without_plus(text);
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  return std::all_of(
      text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

template <typename T>
std::optional<Value> as_value(const std::optional<T>& parsed) {
  return parsed ? std::optional<Value>(*parsed) : std::nullopt;
}

}  // namespace

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

std::optional<Value> parse_value(std::string_view text, ColumnType type) {
  if (type == ColumnType::string) {
    return Value(std::string(text));
  }
  if (text.empty()) {
    return Value();
  }
  switch (type) {
    case ColumnType::integer:
      return as_value(parse_integer(text));
    case ColumnType::real:
      return as_value(parse_real(text));
    case ColumnType::boolean:
      return as_value(parse_boolean(text));
    default:
      return std::nullopt;
  }
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

void TypeGuess::add(std::string_view text) {
  if (text.empty() || !(integer_ || real_ || boolean_)) {
    return;
  }
  seen_ = true;
  const bool is_integer = parse_integer(text).has_value();
  integer_ = integer_ && is_integer;
  real_ = real_ && (is_integer || (!only_digits(text) && parse_real(text)));
  boolean_ = boolean_ && parse_boolean(text).has_value();
}

ColumnType TypeGuess::result() const {
  if (!seen_) {
    return ColumnType::string;
  }
  return integer_   ? ColumnType::integer
         : real_    ? ColumnType::real
         : boolean_ ? ColumnType::boolean
                    : ColumnType::string;
}

}  // namespace datasets
}  // namespace transformers
