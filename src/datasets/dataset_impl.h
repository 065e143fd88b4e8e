// SPDX-License-Identifier: Apache-2.0
// A view of a table: a selection of its rows and columns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "datasets/table.h"
#include "transformers/dataset.h"

namespace transformers {

class Dataset::Impl {
 public:
  using Indices = std::shared_ptr<const std::vector<std::int64_t>>;

  explicit Impl(datasets::TablePointer table);

  std::int64_t size() const;
  Row get(std::int64_t index) const;
  const std::vector<Column>& columns() const { return columns_; }
  std::string fingerprint() const;

  /// Returns a view of the rows at these positions in this dataset.
  std::shared_ptr<Impl> with_rows(std::vector<std::int64_t> positions) const;
  /// Returns a view of the columns with these indices, under these names.
  std::shared_ptr<Impl> with_columns(
      const std::vector<std::size_t>& indices,
      const std::vector<std::string>& names) const;
  /// Return the index of a column, or of each column. Throw `ArgumentError` for
  /// an unknown column.
  std::size_t column_index(std::string_view column) const;
  std::vector<std::size_t> column_indices(
      const std::vector<std::string>& columns) const;

 private:
  [[noreturn]] void refuse_column(std::string_view column) const;

  datasets::TablePointer table_;
  Indices indices_;  // The selected rows; null for all rows, in table order.
  std::vector<Column> columns_;
  std::vector<std::size_t> column_indices_;  // In `table_`, for each column.
};

namespace datasets {

/// Calls `work(block)` once for each block from 0 to `blocks` - 1, on
/// `num_threads` threads and in roughly ascending order. After an exception, no
/// further blocks are started, and the exception is rethrown. If several calls
/// throw, the exception from the lowest block is rethrown.
void for_each_block(
    std::int64_t blocks,
    std::int64_t num_threads,
    const std::function<void(std::int64_t)>& work);

TablePointer map_rows(
    const Dataset& dataset,
    const std::function<Row(const Row&)>& function,
    const DatasetMapOptions& options);

}  // namespace datasets
}  // namespace transformers
