// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/csv_cells.h"
#include "datasets/csv_reader.h"
#include "datasets/csv_types.h"
#include "datasets/table.h"
#include "datasets/text_files.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

using accelerate::str_cat;

/// Names columns as pandas does: a column without a name is `Unnamed: <index>`,
/// and the second column named `a` is `a.1`.
std::vector<Column> column_names(const std::vector<CsvCell>& cells) {
  std::vector<std::string> names;
  std::vector<std::size_t> order;  // Column indices; named columns come first.
  std::vector<std::size_t> unnamed;
  std::unordered_map<std::string, std::int64_t> in_header;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    names.push_back(cells[i].text());
    (names[i].empty() ? unnamed : order).push_back(i);
    if (names[i].empty()) {
      names[i] = str_cat("Unnamed: ", i);
    }
    ++in_header[names[i]];
  }
  order.insert(order.end(), unnamed.begin(), unnamed.end());
  std::unordered_map<std::string, std::int64_t> next_number;
  for (const std::size_t i : order) {
    const std::string base = names[i];
    std::int64_t number = next_number[base];
    while (number > 0) {
      next_number[base] = number + 1;
      names[i] = str_cat(base, ".", number);
      number = in_header[names[i]] > 0 ? number + 1 : next_number[names[i]];
    }
    --in_header[base];
    ++in_header[names[i]];
    next_number[names[i]] = number + 1;
  }
  std::vector<Column> columns;
  for (std::string& name : names) {
    columns.push_back({std::move(name), ColumnType::string});
  }
  return columns;
}

class CsvTable : public Table {
 public:
  CsvTable(
      const Paths& paths,
      const CsvFormat& format,
      const LoadDatasetOptions& options)
      : files_(paths),
        format_(format),
        keep_default_na_(options.keep_default_na) {
    for (const std::string& name : options.column_names) {
      columns_.push_back({name, ColumnType::string});
    }
    const bool has_header = columns_.empty();
    std::vector<TypeGuess> guesses;
    for (std::size_t file = 0; file < files_.count(); ++file) {
      CsvReader reader(files_.text(file), format_, files_.source(file));
      if (has_header) {
        read_header(reader, file);
      }
      scan(reader, file, options, guesses);
    }
    check_column_types(options, columns_);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto explicit_type = options.column_types.find(columns_[i].name);
      columns_[i].type = explicit_type != options.column_types.end()
                             ? explicit_type->second
                             : guesses[i].result();
    }
  }

  std::int64_t rows() const override { return files_.rows(); }
  const std::vector<Column>& columns() const override { return columns_; }

  std::vector<Value> read(std::int64_t row) const override {
    const auto location = files_.location(row);
    CsvReader reader(
        files_.text(location.file), format_, files_.source(location.file));
    reader.seek(location.offset);
    if (!reader.next() || reader.cells().size() > columns_.size()) {
      reader.fail(location.offset, "the file has changed since it was loaded");
    }
    std::vector<Value> values;
    values.reserve(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      values.push_back(parse(reader, cell_at(reader, i), columns_[i]));
    }
    return values;
  }

  std::string fingerprint() const override {
    std::string format =
        str_cat("csv 2 ", format_.delimiter, format_.quoting, keep_default_na_);
    for (const Column& column : columns_) {
      format += str_cat("\n", name_of(column.type), " ", column.name);
    }
    return files_.fingerprint(format);
  }

 private:
  void scan(
      CsvReader& reader,
      std::size_t file,
      const LoadDatasetOptions& options,
      std::vector<TypeGuess>& guesses) {
    std::vector<const ColumnType*> explicit_types;
    for (const Column& column : columns_) {
      const auto found = options.column_types.find(column.name);
      explicit_types.push_back(
          found != options.column_types.end() ? &found->second : nullptr);
      if (guesses.size() < explicit_types.size()) {
        guesses.emplace_back(column.name, keep_default_na_);
      }
    }
    for (std::int64_t row = 1; reader.next(); ++row) {
      check_width(reader);
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const CsvCell cell = cell_at(reader, i);
        if (explicit_types[i] == nullptr) {
          add(guesses[i], cell);
        } else {
          parse(reader, cell, {columns_[i].name, *explicit_types[i]});
        }
      }
      files_.add_row(file, reader.record_offset());
      if (row % kCsvBlockRows == 0) {
        end_block(file, reader, guesses);
      }
    }
    end_block(file, reader, guesses);
    for (TypeGuess& guess : guesses) {
      guess.end_file();
    }
  }

  /// Returns the cell of a column. Cells missing at the end of a row are empty.
  static CsvCell cell_at(const CsvReader& reader, std::size_t column) {
    return column < reader.cells().size()
               ? reader.cells()[column]
               : CsvCell{{}, reader.record_offset(), false};
  }

  static void add(TypeGuess& guess, const CsvCell& cell) {
    if (cell.has_quotes_inside) {
      guess.add(cell.text(), cell.offset);
    } else {
      guess.add(cell.raw, cell.offset);
    }
  }

  void end_block(
      std::size_t file,
      const CsvReader& reader,
      std::vector<TypeGuess>& guesses) const {
    const auto text_at = [&](std::size_t offset) {
      return CsvReader(files_.text(file), format_, files_.source(file))
          .text_at(offset);
    };
    for (TypeGuess& guess : guesses) {
      if (const auto problem = guess.end_block(text_at)) {
        reader.fail(problem->offset, problem->message, problem->hint);
      }
    }
  }

  void read_header(CsvReader& reader, std::size_t file) {
    if (!reader.next()) {
      reader.fail(0, "the file is empty; expected a header line");
    }
    std::vector<Column> header = column_names(reader.cells());
    if (file > 0 && header != columns_) {
      reader.fail(
          reader.record_offset(),
          str_cat(
              "the header is different from the header of ", files_.source(0)));
    }
    columns_ = std::move(header);
  }

  void check_width(const CsvReader& reader) const {
    const std::size_t cells = reader.cells().size();
    if (cells <= columns_.size()) {
      return;
    }
    reader.fail(
        reader.cells()[columns_.size()].offset,
        str_cat(
            "the row has ",
            cells,
            " cells, but the table has ",
            columns_.size(),
            columns_.size() == 1 ? " column" : " columns"),
        "name all columns, or put quotes around cells that contain the "
        "delimiter");
  }

  Value parse(
      const CsvReader& reader,
      const CsvCell& cell,
      const Column& column) const {
    auto value = cell.has_quotes_inside
                     ? parse_cell(cell.text(), column.type, keep_default_na_)
                     : parse_cell(cell.raw, column.type, keep_default_na_);
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
  bool keep_default_na_;
  std::vector<Column> columns_;
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
