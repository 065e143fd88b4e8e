// SPDX-License-Identifier: Apache-2.0
// A table with one row per JSON object.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/csv_reader.h"
#include "datasets/json_column.h"
#include "datasets/json_values.h"
#include "datasets/table.h"
#include "datasets/text_files.h"

namespace transformers::datasets {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::str_cat;

// Hugging Face Datasets reads this many bytes of a file at a time, and then
// reads to the end of the line. The first part determines the types of the
// columns.
constexpr std::size_t kPartBytes = std::size_t{10} << 20;

// If a file is one list, Hugging Face Datasets formats the numbers in the list
// and reads them again. It formats very large and very small numbers with ten
// significant digits, and other numbers with ten decimals.
double with_ten_decimals(double value) {
  constexpr double kLargest = 1e16 - 1;
  constexpr double kSmallest = 1e-15;
  const double size = std::abs(value);
  if (value >= 0x1p63 && value < 0x1p64) {
    return value;  // Python reads these as integers.
  }
  const char* format =
      size != 0 && (size > kLargest || size < kSmallest) ? "%.10g" : "%.10f";
  char text[64];
  const int length = std::snprintf(text, sizeof(text), format, value);
  // `snprintf` writes the decimal point of the locale.
  std::replace(text, text + length, ',', '.');
  std::from_chars(text, text + length, value);
  return value;
}

/// Converts the numbers in an element of a list as Hugging Face Datasets does.
Json with_ten_decimals(Json json) {
  if (json.is_array()) {
    for (Json& element : json.as_array()) {
      element = with_ten_decimals(std::move(element));
    }
  } else if (json.is_object()) {
    for (auto& member : json.as_object()) {
      member.value = with_ten_decimals(std::move(member.value));
    }
  } else if (json.type() == Json::Type::real) {
    const double value = json.as_double();
    return std::isfinite(value) ? Json(with_ten_decimals(value)) : Json();
  }
  return json;
}

std::string shortened(const Json& value) {
  std::string text = value.dump({.allow_nan = true});
  return accelerate::printable(
      text.size() > 60 ? text.substr(0, 60) + "…" : text);
}

std::string why_unsupported(const Json& value) {
  return str_cat(
      "is `",
      shortened(value),
      value.is_object()
          ? "`, an object; only text, numbers, booleans and lists of text or "
            "numbers are supported"
          : "`; a list must contain only text or only numbers");
}

class JsonTable : public Table {
 public:
  JsonTable(const Paths& paths, const LoadDatasetOptions& options)
      : files_(paths), explicit_types_(options.column_types) {
    for (std::size_t file = 0; file < files_.count(); ++file) {
      scan(file);
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      columns_[i].type = guesses_[i].type();
    }
    check_column_types(options, columns_);
    guesses_ = {};
    indices_ = {};
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }

  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    const Json json = parse(
        location.file,
        location.offset,
        json_value_at(files_.text(location.file), location.offset));
    std::vector<Value> values;
    values.reserve(columns_.size());
    for (const Column& column : columns_) {
      const Json* member = json.find(column.name);
      auto value = member != nullptr ? to_value(*member) : Value();
      values.push_back(as_column_value(value.value_or(Value()), column.type));
    }
    return values;
  }

  std::string fingerprint() const override {
    std::string format = "json 2";
    for (const Column& column : columns_) {
      format += str_cat("\n", name_of(column.type), " ", column.name);
    }
    return files_.fingerprint(format);
  }

 private:
  enum class Layout { objects, list_of_rows, list_of_values };

  void scan(std::size_t file) {
    const std::string_view text = files_.text(file);
    JsonValues values(text, files_.source(file));
    layouts_.push_back(
        !values.is_list()          ? Layout::objects
        : values.is_list_of_rows() ? Layout::list_of_rows
                                   : Layout::list_of_values);
    std::size_t part_end =
        values.is_list() ? text.size() : end_of_part(text, 0);
    while (values.next()) {
      while (values.offset() >= part_end) {
        end_part(file);
        part_end = end_of_part(text, part_end);
      }
      merge_types(
          file, values.offset(), parse(file, values.offset(), values.value()));
      files_.add_row(file, values.offset());
    }
    end_part(file);
  }

  static std::size_t end_of_part(std::string_view text, std::size_t begin) {
    const std::size_t newline =
        text.find('\n', std::min(begin + kPartBytes, text.size()));
    return newline == std::string_view::npos ? text.size() : newline + 1;
  }

  void end_part(std::size_t file) {
    is_first_part_ = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto time = guesses_[i].end_part();
      if (!time) {
        continue;
      }
      fail(
          file,
          time->offset,
          columns_[i].name,
          str_cat(
              "holds only dates or times such as `",
              time->text,
              "`, which Hugging Face Datasets does not read as text"),
          "to read them as text, set the type to string with `column_types`");
    }
  }

  Json parse(
      std::size_t file, std::size_t offset, std::string_view value) const {
    Json json = parse_value(file, offset, value);
    if (layouts_[file] != Layout::objects) {
      json = with_ten_decimals(std::move(json));
    }
    if (layouts_[file] == Layout::list_of_values) {
      return Json::object({{"text", std::move(json)}});
    }
    if (json.is_null()) {
      return Json::object();
    }
    if (!json.is_object()) {
      fail_at(
          files_.source(file),
          files_.text(file),
          offset,
          str_cat("expected an object, found `", shortened(json), "`"));
    }
    return json;
  }

  Json parse_value(
      std::size_t file, std::size_t offset, std::string_view value) const {
    try {
      return Json::parse(
          value, {.source = "row", .byte_offset = offset, .allow_nan = true});
    } catch (const FormatError& error) {
      // The message is "row: byte <offset>: problem", except for a row that is
      // too large.
      constexpr std::string_view kPrefix = "row: byte ";
      const std::string message = error.what();
      if (!message.starts_with(kPrefix)) {
        fail_at(files_.source(file), files_.text(file), offset, message);
      }
      const std::size_t colon = message.find(':', kPrefix.size());
      const auto at = accelerate::parse_integer(
          message.substr(kPrefix.size(), colon - kPrefix.size()));
      fail_at(
          files_.source(file),
          files_.text(file),
          static_cast<std::size_t>(at.value_or(0)),
          message.substr(colon + 2));
    }
  }

  void merge_types(std::size_t file, std::size_t offset, const Json& json) {
    for (const auto& [name, member] : json.as_object()) {
      const auto value = to_value(member);
      if (!value) {
        fail(
            file,
            offset,
            name,
            why_unsupported(member),
            "remove the value, or convert it to text");
      }
      JsonColumn& column = guesses_[find_or_add(name)];
      if (const auto problem = column.add(*value, is_first_part_)) {
        fail(file, offset, name, *problem);
      }
      column.add_text(*value, offset);
    }
  }

  [[noreturn]] void fail(
      std::size_t file,
      std::size_t offset,
      const std::string& column,
      const std::string& problem,
      const std::string& hint = {}) const {
    fail_at(
        files_.source(file),
        files_.text(file),
        offset,
        str_cat("column `", accelerate::printable(column), "` ", problem),
        hint);
  }

  std::size_t find_or_add(const std::string& name) {
    const auto [found, is_new] = indices_.emplace(name, columns_.size());
    if (is_new) {
      columns_.push_back({name, ColumnType::string});
      const auto type = explicit_types_.find(name);
      guesses_.emplace_back(
          type != explicit_types_.end() ? std::optional(type->second)
                                        : std::nullopt);
    }
    return found->second;
  }

  TextFiles files_;
  std::map<std::string, ColumnType> explicit_types_;
  std::vector<Layout> layouts_;  // One per file.
  std::vector<Column> columns_;
  std::vector<JsonColumn> guesses_;
  // Column name to index.
  std::unordered_map<std::string, std::size_t> indices_;
  bool is_first_part_ = true;
};

}  // namespace

TablePointer read_json(const Paths& paths, const LoadDatasetOptions& options) {
  return std::make_shared<JsonTable>(paths, options);
}

}  // namespace transformers::datasets
