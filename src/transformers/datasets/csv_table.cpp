// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "transformers/datasets/csv_reader.h"
#include "transformers/datasets/table.h"
#include "transformers/datasets/text_files.h"
#include "transformers/datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::str_cat;

class CsvTable : public Table {
 public:
  CsvTable(
      const Paths& paths,
      const CsvFormat& format,
      const LoadDatasetOptions& options)
      : files_(paths), format_(format) {
    for (const std::string& name : options.column_names) {
      columns_.push_back({name, ColumnType::string});
    }
    const bool has_header = columns_.empty();
    for (std::size_t file = 0; file < files_.count(); ++file) {
      scan(file, has_header, options);
    }
    check_column_types(options, columns_);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto explicit_type = options.column_types.find(columns_[i].name);
      columns_[i].type = explicit_type != options.column_types.end()
                             ? explicit_type->second
                             : guesses_[i].result();
    }
    guesses_.clear();
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }

  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    CsvReader reader(
        files_.text(location.file), format_, files_.source(location.file));
    reader.seek(location.offset);
    if (!reader.next() || reader.cells().size() != columns_.size()) {
      reader.fail(location.offset, "the file has changed since it was loaded");
    }
    std::vector<Value> values;
    values.reserve(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      values.push_back(parse(reader, reader.cells()[i], columns_[i]));
    }
    return values;
  }

  std::string fingerprint() const override {
    std::string format = str_cat("csv ", format_.delimiter, format_.quoting);
    for (const Column& column : columns_) {
      format += str_cat("\n", name_of(column.type), " ", column.name);
    }
    return files_.fingerprint(format);
  }

 private:
  void scan(
      std::size_t file, bool has_header, const LoadDatasetOptions& options) {
    CsvReader reader(files_.text(file), format_, files_.source(file));
    if (has_header) {
      read_header(reader, file);
    }
    guesses_.resize(columns_.size());
    std::vector<const ColumnType*> explicit_types(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto found = options.column_types.find(columns_[i].name);
      explicit_types[i] =
          found != options.column_types.end() ? &found->second : nullptr;
    }
    while (reader.next()) {
      check_width(reader);
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const CsvCell& cell = reader.cells()[i];
        if (explicit_types[i] == nullptr) {
          guesses_[i].add(cell.raw);
        } else {
          parse(reader, cell, {columns_[i].name, *explicit_types[i]});
        }
      }
      files_.add_row(file, reader.record_offset());
    }
  }

  void read_header(CsvReader& reader, std::size_t file) {
    if (!reader.next()) {
      reader.fail(0, "the file is empty; expected a header line");
    }
    std::vector<Column> header;
    for (const CsvCell& cell : reader.cells()) {
      const std::string name = cell.text();
      if (name.empty()) {
        reader.fail(cell.offset, "the header has a column without a name");
      }
      for (const Column& earlier : header) {
        if (earlier.name == name) {
          reader.fail(
              cell.offset, str_cat("the header names `", name, "` twice"));
        }
      }
      header.push_back({name, ColumnType::string});
    }
    if (file > 0 && header != columns_) {
      reader.fail(
          reader.record_offset(),
          str_cat("the header differs from the header of ", files_.source(0)));
    }
    columns_ = std::move(header);
  }

  void check_width(const CsvReader& reader) const {
    const std::size_t cells = reader.cells().size();
    if (cells == columns_.size()) {
      return;
    }
    const std::size_t first_extra = std::min(cells - 1, columns_.size());
    reader.fail(
        reader.cells()[first_extra].offset,
        str_cat(
            "the row has ",
            cells,
            cells == 1 ? " cell" : " cells",
            ", but the table has ",
            columns_.size(),
            columns_.size() == 1 ? " column" : " columns"));
  }

  static Value parse(
      const CsvReader& reader, const CsvCell& cell, const Column& column) {
    auto value = cell.doubled_quotes ? parse_value(cell.text(), column.type)
                                     : parse_value(cell.raw, column.type);
    if (!value) {
      reader.fail(
          cell.offset,
          str_cat(
              "column `",
              column.name,
              "`: `",
              accelerate::printable(cell.text().substr(0, 80)),
              "` is not ",
              described(column.type)));
    }
    return *std::move(value);
  }

  TextFiles files_;
  CsvFormat format_;
  std::vector<Column> columns_;
  std::vector<TypeGuess> guesses_;
};

void check_options(char delimiter, const LoadDatasetOptions& options) {
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    throw accelerate::ArgumentError(
        "`delimiter` cannot be a quote or a line break",
        "set `delimiter` to another character");
  }
  std::vector<std::string> names = options.column_names;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw accelerate::ArgumentError(
        str_cat("`column_names` contains `", *twice, "` twice"));
  }
  for (const auto& [name, type] : options.column_types) {
    if (type == ColumnType::strings || type == ColumnType::integers ||
        type == ColumnType::reals) {
      throw accelerate::ArgumentError(
          str_cat(
              "column `", name, "`: a CSV cell cannot be ", described(type)),
          "use JSON lines for lists");
    }
  }
}

}  // namespace

TablePointer read_csv(
    const Paths& paths, char delimiter, const LoadDatasetOptions& options) {
  check_options(delimiter, options);
  return std::make_shared<CsvTable>(
      paths, CsvFormat{delimiter, options.quoting}, options);
}

}  // namespace transformers::datasets
