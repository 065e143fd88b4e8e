// SPDX-License-Identifier: Apache-2.0
// Tables with one row per line: JSON lines and plain text.
#include <algorithm>
#include <functional>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/datasets/csv_reader.h"
#include "transformers/datasets/table.h"
#include "transformers/datasets/text_files.h"
#include "transformers/datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::str_cat;

/// Returns the line that begins at `offset`, without the line break.
std::string_view line_at(std::string_view text, std::size_t offset) {
  std::string_view line = text.substr(offset);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

void for_each_line(
    std::string_view text,
    const std::function<void(std::size_t offset, std::string_view line)>&
        visit) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::size_t offset =
      text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (offset < text.size()) {
    visit(offset, line_at(text, offset));
    const std::size_t end = text.find('\n', offset);
    offset = end == std::string_view::npos ? text.size() : end + 1;
  }
}

class TextTable : public Table {
 public:
  explicit TextTable(const Paths& paths) : files_(paths) {
    for (std::size_t file = 0; file < files_.count(); ++file) {
      for_each_line(
          files_.text(file), [&](std::size_t offset, std::string_view) {
            files_.add_row(file, offset);
          });
    }
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }
  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    return {std::string(line_at(files_.text(location.file), location.offset))};
  }
  std::string fingerprint() const override {
    return files_.fingerprint("text");
  }

 private:
  TextFiles files_;
  std::vector<Column> columns_ = {{"text", ColumnType::string}};
};

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

/// Converts a JSON value to a cell. Returns nothing for objects, nested lists
/// and lists with elements of different types.
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
  // An empty list counts as integers until another row shows its type.
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

bool is_empty_list(const Value& value) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  return list != nullptr && list->empty();
}

/// Converts empty lists and numbers to the type of the column.
Value as_column_value(Value value, ColumnType type) {
  if (is_empty_list(value) && type == ColumnType::strings) {
    return std::vector<std::string>();
  }
  return as_type(std::move(value), type);
}

class JsonTable : public Table {
 public:
  JsonTable(const Paths& paths, const LoadDatasetOptions& options)
      : files_(paths) {
    for (std::size_t file = 0; file < files_.count(); ++file) {
      for_each_line(
          files_.text(file), [&](std::size_t offset, std::string_view line) {
            if (!accelerate::trim(line).empty()) {
              merge_types(file, offset, parse(file, offset), options);
              files_.add_row(file, offset);
            }
          });
    }
    for (std::size_t i = 0; i < types_.size(); ++i) {
      columns_[i].type = types_[i].value_or(
          empty_lists_[i] ? ColumnType::integers : ColumnType::string);
    }
    check_column_types(options, columns_);
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }

  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    const Json json = parse(location.file, location.offset);
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
    std::string format = "json";
    for (const Column& column : columns_) {
      format += str_cat("\n", name_of(column.type), " ", column.name);
    }
    return files_.fingerprint(format);
  }

 private:
  Json parse(std::size_t file, std::size_t offset) const {
    const std::string_view text = files_.text(file);
    const std::string_view line = line_at(text, offset);
    try {
      Json json = Json::parse(line, {.source = "line"});
      if (json.is_object()) {
        return json;
      }
    } catch (const FormatError& error) {
      // The message is "line:1:<column>: problem". The column number is
      // correct, but the line number is not.
      const std::string message = error.what();
      const auto column = accelerate::split(message, ':').at(2);
      const auto at = accelerate::parse_integer(column).value_or(1);
      fail_at(
          files_.source(file),
          text,
          offset + static_cast<std::size_t>(at) - 1,
          message.substr(message.find(": ") + 2));
    }
    fail_at(
        files_.source(file),
        text,
        offset,
        accelerate::trim(line).starts_with('[')
            ? "expected an object, found a list; write one object per line"
            : "expected an object");
  }

  void merge_types(
      std::size_t file,
      std::size_t offset,
      const Json& json,
      const LoadDatasetOptions& options) {
    for (const auto& [name, member] : json.as_object()) {
      const std::size_t column = find_or_add(name, options);
      const auto value = to_value(member);
      const auto fail = [&](const std::string& message) {
        fail_at(
            files_.source(file),
            files_.text(file),
            offset,
            str_cat("column `", name, "` ", message));
      };
      if (!value) {
        fail(
            member.is_object()
                ? "is an object; only text, numbers, booleans and lists are "
                  "supported"
                : "is a nested list or a list with elements of different "
                  "types");
      }
      merge_type(column, *value, fail);
    }
  }

  void merge_type(
      std::size_t column,
      const Value& value,
      const std::function<void(const std::string&)>& fail) {
    if (is_empty_list(value)) {
      const auto type = types_[column];
      empty_lists_[column] = true;
      if (type && *type != ColumnType::strings &&
          *type != ColumnType::integers && *type != ColumnType::reals) {
        fail(str_cat("is a list, but in other rows it is ", described(*type)));
      }
      return;
    }
    const auto type = type_of(value);
    if (!type) {
      return;
    }
    auto& column_type = types_[column];
    if (has_explicit_type_[column] &&
        common_type(*column_type, *type) != column_type) {
      fail(str_cat("is ", described(*type), ", not ", described(*column_type)));
    }
    const auto common = column_type ? common_type(*column_type, *type) : type;
    const bool list_before =
        *type == ColumnType::strings || *type == ColumnType::integers ||
        *type == ColumnType::reals || !empty_lists_[column];
    if (!common || !list_before) {
      fail(str_cat(
          "is ",
          described(*type),
          ", but in other rows it is ",
          column_type ? described(*column_type) : "a list"));
    }
    column_type = common;
  }

  std::size_t find_or_add(
      const std::string& name, const LoadDatasetOptions& options) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].name == name) {
        return i;
      }
    }
    columns_.push_back({name, ColumnType::string});
    const auto found = options.column_types.find(name);
    const bool is_explicit = found != options.column_types.end();
    types_.push_back(is_explicit ? std::optional(found->second) : std::nullopt);
    has_explicit_type_.push_back(is_explicit);
    empty_lists_.push_back(false);
    return columns_.size() - 1;
  }

  TextFiles files_;
  std::vector<Column> columns_;
  std::vector<std::optional<ColumnType>> types_;
  std::vector<bool> has_explicit_type_;
  std::vector<bool> empty_lists_;
};

}  // namespace

TablePointer read_json_lines(
    const Paths& paths, const LoadDatasetOptions& options) {
  return std::make_shared<JsonTable>(paths, options);
}

TablePointer read_text_lines(const Paths& paths) {
  return std::make_shared<TextTable>(paths);
}

}  // namespace transformers::datasets
