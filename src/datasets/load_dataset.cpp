// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <unordered_set>
#include <utility>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/dataset_impl.h"
#include "datasets/row_file.h"
#include "datasets/table.h"
#include "transformers/dataset.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;

namespace datasets {
namespace {

class MemoryTable : public Table {
 public:
  MemoryTable(std::vector<Column> columns, std::vector<std::vector<Value>> rows)
      : columns_(std::move(columns)), rows_(std::move(rows)) {}

  std::int64_t rows() const override {
    return static_cast<std::int64_t>(rows_.size());
  }
  const std::vector<Column>& columns() const override { return columns_; }
  std::vector<Value> read(std::int64_t row) const override {
    return rows_[static_cast<std::size_t>(row)];
  }
  std::string fingerprint() const override {
    std::string bytes;
    for (const Column& column : columns_) {
      bytes += str_cat(name_of(column.type), " ", column.name, "\n");
    }
    for (const auto& row : rows_) {
      for (const Value& value : row) {
        append_value(bytes, value);
      }
    }
    return accelerate::sha256_hex(bytes);
  }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Value>> rows_;
};

[[noreturn]] void refuse_column_type(
    const std::string& name, const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) {
    names.push_back(column.name);
  }
  throw ArgumentError(
      str_cat(
          "`column_types` names the column `",
          name,
          "`, but ",
          names.empty()
              ? "there are no columns"
              : str_cat("the columns are ", accelerate::join(names, ", "))),
      accelerate::did_you_mean(name, names));
}

}  // namespace

TablePointer rows_in_memory(
    std::vector<Column> columns, std::vector<std::vector<Value>> rows) {
  return std::make_shared<MemoryTable>(std::move(columns), std::move(rows));
}

void check_column_types(
    const LoadDatasetOptions& options, const std::vector<Column>& columns) {
  std::unordered_set<std::string_view> names;
  for (const Column& column : columns) {
    names.insert(column.name);
  }
  for (const auto& [name, type] : options.column_types) {
    if (!names.contains(name)) {
      refuse_column_type(name, columns);
    }
  }
}

}  // namespace datasets

namespace {

void refuse_csv_options(
    std::string_view format, const LoadDatasetOptions& options) {
  const char* option = !options.column_names.empty() ? "column_names"
                       : options.delimiter           ? "delimiter"
                       : !options.quoting            ? "quoting"
                       : !options.keep_default_na    ? "keep_default_na"
                                                     : nullptr;
  if (option != nullptr) {
    throw ArgumentError(
        str_cat("the format `", format, "` does not use `", option, "`"),
        "leave it out, or use `csv` or `tsv`");
  }
}

datasets::TablePointer read_table(
    std::string_view format,
    const datasets::Paths& paths,
    const LoadDatasetOptions& options) {
  if (format == "csv" || format == "tsv") {
    const char default_delimiter = format == "csv" ? ',' : '\t';
    return datasets::read_csv(
        paths, options.delimiter.value_or(default_delimiter), options);
  }
  if (format == "json") {
    refuse_csv_options(format, options);
    return datasets::read_json(paths, options);
  }
  if (format == "text") {
    refuse_csv_options(format, options);
    if (!options.column_types.empty()) {
      throw ArgumentError(
          "the format `text` does not use `column_types`",
          "leave out `column_types`");
    }
    return datasets::read_text_lines(paths);
  }
  throw ArgumentError(
      str_cat(
          "the format is `",
          format,
          "`, but must be one of csv, tsv, json, text"),
      accelerate::did_you_mean(format, {"csv", "tsv", "json", "text"}));
}

}  // namespace

DataFiles::DataFiles(const char* path) : paths_{path} {
}
DataFiles::DataFiles(const std::string& path) : paths_{path} {
}
DataFiles::DataFiles(std::filesystem::path path) : paths_{std::move(path)} {
}
DataFiles::DataFiles(std::vector<std::filesystem::path> paths)
    : paths_(std::move(paths)) {
}
DataFiles::DataFiles(std::initializer_list<std::filesystem::path> paths)
    : paths_(paths) {
}

Dataset load_dataset(
    std::string_view format,
    const DataFiles& files,
    const LoadDatasetOptions& options) {
  return Dataset(std::make_shared<Dataset::Impl>(
      read_table(format, files.paths(), options)));
}

}  // namespace transformers
