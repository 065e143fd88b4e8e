// SPDX-License-Identifier: Apache-2.0
// The source of a dataset's rows. Tables are immutable and thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transformers/dataset.h"

namespace transformers::datasets {

class Table {
 public:
  Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  virtual ~Table() = default;

  virtual std::int64_t rows() const = 0;
  virtual const std::vector<Column>& columns() const = 0;
  /// Returns the values in one row, in the order of the columns.
  virtual std::vector<Value> read(std::int64_t row) const = 0;
  /// Returns a digest of all data and options that determine the results of
  /// `read`.
  virtual std::string fingerprint() const = 0;
};

using TablePointer = std::shared_ptr<const Table>;
using Paths = std::vector<std::filesystem::path>;

TablePointer read_csv(
    const Paths& paths, char delimiter, const LoadDatasetOptions& options);
TablePointer read_json(const Paths& paths, const LoadDatasetOptions& options);
TablePointer read_text_lines(const Paths& paths);
TablePointer rows_in_memory(
    std::vector<Column> columns, std::vector<std::vector<Value>> rows);

/// Throws `ArgumentError` if `column_types` names an unknown column.
void check_column_types(
    const LoadDatasetOptions& options, const std::vector<Column>& columns);

}  // namespace transformers::datasets
