// SPDX-License-Identifier: Apache-2.0
#include "datasets/json_column.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/str_cat.h"
#include "datasets/timestamps.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::Json;
using accelerate::str_cat;

template <typename T, typename Convert>
std::optional<Value> list_of(
    const Json::Array& elements, bool (Json::*is)() const, Convert convert) {
  std::vector<T> list;
  list.reserve(elements.size());
  for (const Json& element : elements) {
    if (!(element.*is)()) {
      return std::nullopt;
    }
    list.push_back(convert(element));
  }
  return Value(std::move(list));
}

bool is_empty_list(const Value& value) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  return list != nullptr && list->empty();
}

bool is_list(ColumnType type) {
  return type == ColumnType::strings || type == ColumnType::integers ||
         type == ColumnType::reals;
}

/// Converts real numbers to integers. Returns nothing if a number is not whole.
std::optional<Value> as_integers(const Value& value) {
  if (const auto* real = std::get_if<double>(&value)) {
    const auto integer = whole(*real);
    return integer ? std::optional<Value>(*integer) : std::nullopt;
  }
  if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    std::vector<std::int64_t> integers;
    for (const double real : *reals) {
      if (const auto integer = whole(real)) {
        integers.push_back(*integer);
      }
    }
    return integers.size() == reals->size()
               ? std::optional<Value>(std::move(integers))
               : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> to_value(const Json& json) {
  switch (json.type()) {
    case Json::Type::null:
      return Value();
    case Json::Type::boolean:
      return Value(json.as_bool());
    case Json::Type::integer:
      return Value(json.as_integer());
    case Json::Type::real:
      return Value(json.as_double());
    case Json::Type::string:
      return Value(json.as_string());
    case Json::Type::object:
      return std::nullopt;
    case Json::Type::array:
      break;
  }
  const Json::Array& elements = json.as_array();
  // An empty list is treated as a list of integers until another row determines
  // the type.
  if (auto list = list_of<std::int64_t>(
          elements, &Json::is_integer, std::mem_fn(&Json::as_integer))) {
    return list;
  }
  if (auto list = list_of<double>(
          elements, &Json::is_number, std::mem_fn(&Json::as_double))) {
    return list;
  }
  return list_of<std::string>(
      elements, &Json::is_string, [](const Json& e) { return e.as_string(); });
}

Value as_column_value(Value value, ColumnType type) {
  if (is_empty_list(value) && type == ColumnType::strings) {
    return std::vector<std::string>();
  }
  if (type == ColumnType::integer || type == ColumnType::integers) {
    return as_integers(value).value_or(std::move(value));
  }
  return as_type(std::move(value), type);
}

std::optional<std::string> JsonColumn::add(
    const Value& value, bool is_first_part) {
  if (is_empty_list(value)) {
    has_empty_list_ = true;
    return type_ && !is_list(*type_)
               ? std::optional(str_cat(
                     "is a list, but in other rows it is ", described(*type_)))
               : std::nullopt;
  }
  const auto type = type_of(value);
  const bool keep_integers = !is_first_part || is_explicit_;
  if (!type || (keep_integers && is_whole(*type, value))) {
    return std::nullopt;
  }
  const auto common = type_ ? common_type(*type_, *type) : type;
  if (is_explicit_ && common != type_) {
    return str_cat("is ", described(*type), ", not ", described(*type_));
  }
  if (!common || (has_empty_list_ && !is_list(*type))) {
    return str_cat(
        "is ",
        described(*type),
        ", but in other rows it is ",
        type_ ? described(*type_) : "a list");
  }
  type_ = common;
  return std::nullopt;
}

void JsonColumn::add_text(const Value& value, std::size_t offset) {
  if (is_explicit_ || !only_times_) {
    return;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    add_text(*text, offset);
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& element : *list) {
      add_text(element, offset);
    }
  }
}

void JsonColumn::add_text(const std::string& text, std::size_t offset) {
  only_times_ = only_times_ && is_timestamp(text);
  if (!first_time_ && only_times_) {
    first_time_ = Time{offset, text};
  }
}

std::optional<JsonColumn::Time> JsonColumn::end_part() {
  auto time = only_times_ ? std::move(first_time_) : std::nullopt;
  only_times_ = true;
  first_time_.reset();
  return time;
}

ColumnType JsonColumn::type() const {
  return type_.value_or(
      has_empty_list_ ? ColumnType::integers : ColumnType::string);
}

bool JsonColumn::is_whole(ColumnType type, const Value& value) const {
  const bool are_numbers =
      (type_ == ColumnType::integer && type == ColumnType::real) ||
      (type_ == ColumnType::integers && type == ColumnType::reals);
  return are_numbers && as_integers(value).has_value();
}

}  // namespace transformers::datasets
