// SPDX-License-Identifier: Apache-2.0
// A table, some of its rows, some of its columns under other names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transformers/dataset.h"
#include "transformers/datasets/table.h"

namespace transformers {

class Dataset::Impl {
 public:
  using Indices = std::shared_ptr<const std::vector<std::int64_t>>;

  explicit Impl(datasets::TablePointer table);

  std::int64_t size() const;
  Row get(std::int64_t index) const;
  const std::vector<Column>& columns() const { return columns_; }
  std::string fingerprint() const;

  /// The same with other rows: `positions` are of this dataset.
  std::shared_ptr<Impl> with_rows(std::vector<std::int64_t> positions) const;
  /// The same with the columns at these places, under these names.
  std::shared_ptr<Impl> with_columns(
      const std::vector<std::size_t>& places,
      const std::vector<std::string>& names) const;
  /// Throws `ArgumentError` for a column that is not there.
  std::size_t place_of(std::string_view column) const;

 private:
  datasets::TablePointer table_;
  Indices indices_;  // Null: all rows, as they are.
  std::vector<Column> columns_;
  std::vector<std::size_t> places_;  // Of each column, in the table.
};

namespace datasets {

/// Calls `work(block)` for 0 … blocks-1 on some threads, each block once, in
/// about this order. What a call throws ends all and is thrown: that of the
/// lowest block, if several do.
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
