// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/values.h"
#include "transformers/dataset.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

auto find_cell(auto& cells, std::string_view column) {
  return std::find_if(cells.begin(), cells.end(), [&](const Row::Cell& cell) {
    return cell.first == column;
  });
}

[[noreturn]] void refuse_type(
    std::string_view column, const Value& value, ColumnType requested) {
  const auto type = datasets::type_of(value);
  throw ArgumentError(str_cat(
      "column `",
      column,
      type ? str_cat("` holds ", datasets::described(*type), ", not ")
           : "` has no value in this row; expected ",
      datasets::described(requested)));
}

template <typename T>
const T& get_as(const Row& row, std::string_view column, ColumnType type) {
  const Value& value = row.at(column);
  if (const T* found = std::get_if<T>(&value)) {
    return *found;
  }
  refuse_type(column, value, type);
}

}  // namespace

Row::Row(std::initializer_list<Cell> cells) {
  for (const Cell& cell : cells) {
    set(cell.first, cell.second);
  }
}

bool Row::contains(std::string_view column) const {
  return find_cell(cells_, column) != cells_.end();
}

const Value& Row::at(std::string_view column) const {
  const auto found = find_cell(cells_, column);
  if (found != cells_.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  for (const Cell& cell : cells_) {
    names.push_back(cell.first);
  }
  throw ArgumentError(
      str_cat(
          "the row has no column `",
          column,
          "`; ",
          names.empty()
              ? "it has no columns"
              : str_cat("its columns are ", accelerate::join(names, ", "))),
      accelerate::did_you_mean(column, names));
}

void Row::set(std::string_view column, Value value) {
  const auto found = find_cell(cells_, column);
  if (found != cells_.end()) {
    found->second = std::move(value);
  } else {
    cells_.emplace_back(column, std::move(value));
  }
}

bool Row::erase(std::string_view column) {
  const auto found = find_cell(cells_, column);
  if (found == cells_.end()) {
    return false;
  }
  cells_.erase(found);
  return true;
}

const std::string& Row::text(std::string_view column) const {
  return get_as<std::string>(*this, column, ColumnType::string);
}

std::int64_t Row::integer(std::string_view column) const {
  return get_as<std::int64_t>(*this, column, ColumnType::integer);
}

double Row::real(std::string_view column) const {
  const Value& value = at(column);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  return get_as<double>(*this, column, ColumnType::real);
}

bool Row::boolean(std::string_view column) const {
  return get_as<bool>(*this, column, ColumnType::boolean);
}

const std::vector<std::int64_t>& Row::integers(std::string_view column) const {
  return get_as<std::vector<std::int64_t>>(*this, column, ColumnType::integers);
}

const std::vector<double>& Row::reals(std::string_view column) const {
  return get_as<std::vector<double>>(*this, column, ColumnType::reals);
}

const std::vector<std::string>& Row::strings(std::string_view column) const {
  return get_as<std::vector<std::string>>(*this, column, ColumnType::strings);
}

}  // namespace transformers
