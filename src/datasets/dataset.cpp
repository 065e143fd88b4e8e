// SPDX-License-Identifier: Apache-2.0
#include "transformers/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/dataset_impl.h"
#include "datasets/values.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

constexpr std::int64_t kBlockRows = 1024;

/// The splitmix64 generator. Unlike the standard distributions, it gives the
/// same numbers on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Returns a uniformly distributed number below `bound`.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t threshold = -bound % bound;  // 2^64 mod bound.
    while (true) {
      const std::uint64_t value = next();
      if (value >= threshold) {
        return value % bound;
      }
    }
  }

 private:
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(i)]);
  }
  return order;
}

std::int64_t test_rows(const SplitOptions& options, std::int64_t size) {
  if (options.test_size && options.test_rows) {
    throw ArgumentError(
        "`test_size` and `test_rows` are both set", "set only one of them");
  }
  const double fraction = options.test_size.value_or(0.25);
  if (!(fraction > 0 && fraction < 1)) {
    throw ArgumentError(
        str_cat("`test_size` is ", fraction, ", but must be between 0 and 1"),
        "to set a number of rows, use `test_rows`");
  }
  // Rounded up, as in Hugging Face Datasets.
  const std::int64_t rows =
      options.test_rows.value_or(static_cast<std::int64_t>(
          std::ceil(fraction * static_cast<double>(size))));
  if (rows < 1 || rows >= size) {
    throw ArgumentError(str_cat(
        "the training or the test part would be empty (rows: ",
        size,
        ", test rows: ",
        rows,
        ")"));
  }
  return rows;
}

/// Returns the values of a row in the order of `columns`. Returns nothing if
/// the row has different columns.
std::optional<std::vector<const Value*>> values_in_order(
    const Row& row, const std::vector<Column>& columns) {
  if (row.size() != columns.size()) {
    return std::nullopt;
  }
  std::unordered_map<std::string_view, const Value*> by_name;
  std::vector<const Value*> values;
  auto cell = row.begin();
  for (const Column& column : columns) {
    if (by_name.empty() && cell->first == column.name) {
      values.push_back(&(cell++)->second);  // The usual case: the same order.
      continue;
    }
    if (by_name.empty()) {
      for (const auto& [name, value] : row) {
        by_name.emplace(name, &value);
      }
    }
    const auto found = by_name.find(column.name);
    if (found == by_name.end()) {
      return std::nullopt;
    }
    values.push_back(found->second);
  }
  return values;
}

/// Sets the types of the columns and returns the values of all rows.
std::vector<std::vector<Value>> values_of(
    const std::vector<Row>& rows, std::vector<Column>& columns) {
  std::vector<std::optional<ColumnType>> types(columns.size());
  std::vector<std::vector<Value>> result(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto values = values_in_order(rows[i], columns);
    if (!values) {
      throw ArgumentError(
          str_cat("row ", i, " has different columns from row 0"));
    }
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const Value& value = *(*values)[k];
      const auto type = datasets::type_of(value);
      const auto common = types[k] && type
                              ? datasets::common_type(*types[k], *type)
                          : types[k] ? types[k]
                                     : type;
      if (!common && types[k]) {
        throw ArgumentError(str_cat(
            "row ",
            i,
            ": column `",
            columns[k].name,
            "` is ",
            datasets::described(*type),
            ", but in earlier rows it is ",
            datasets::described(*types[k])));
      }
      types[k] = common;
      result[i].push_back(value);
    }
  }
  for (std::size_t k = 0; k < columns.size(); ++k) {
    columns[k].type = types[k].value_or(ColumnType::string);
    for (auto& values : result) {
      values[k] = datasets::as_type(std::move(values[k]), columns[k].type);
    }
  }
  return result;
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {
}

Dataset Dataset::from_rows(const std::vector<Row>& rows) {
  if (rows.empty()) {
    throw ArgumentError("`from_rows` got no rows, so the columns are unknown");
  }
  std::vector<Column> columns;
  for (const auto& [name, value] : rows.front()) {
    columns.push_back({name, ColumnType::string});
  }
  auto values = values_of(rows, columns);
  return Dataset(std::make_shared<Impl>(
      datasets::rows_in_memory(std::move(columns), std::move(values))));
}

std::int64_t Dataset::size() const {
  return impl_->size();
}

Row Dataset::get(std::int64_t index) const {
  return impl_->get(index);
}

const std::vector<Column>& Dataset::columns() const {
  return impl_->columns();
}

std::vector<std::string> Dataset::column_names() const {
  std::vector<std::string> names;
  for (const Column& column : columns()) {
    names.push_back(column.name);
  }
  return names;
}

std::string Dataset::fingerprint() const {
  return impl_->fingerprint();
}

Dataset Dataset::map(
    const std::function<Row(const Row&)>& function,
    const DatasetMapOptions& options) const {
  static_cast<void>(impl_->column_indices(options.remove_columns));
  return Dataset(
      std::make_shared<Impl>(datasets::map_rows(*this, function, options)));
}

Dataset Dataset::filter(
    const std::function<bool(const Row&)>& keep,
    std::int64_t num_threads) const {
  const std::int64_t blocks = (size() + kBlockRows - 1) / kBlockRows;
  std::vector<std::vector<std::int64_t>> kept(static_cast<std::size_t>(blocks));
  datasets::for_each_block(blocks, num_threads, [&](std::int64_t block) {
    const std::int64_t end = std::min(size(), (block + 1) * kBlockRows);
    for (std::int64_t i = block * kBlockRows; i < end; ++i) {
      if (keep(get(i))) {
        kept[static_cast<std::size_t>(block)].push_back(i);
      }
    }
  });
  std::vector<std::int64_t> all;
  for (const auto& block : kept) {
    all.insert(all.end(), block.begin(), block.end());
  }
  return Dataset(impl_->with_rows(std::move(all)));
}

Dataset Dataset::select(const std::vector<std::int64_t>& indices) const {
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size()) {
      throw ArgumentError(str_cat(
          "`select`: index ",
          index,
          " is out of range for a dataset of size ",
          size()));
    }
  }
  return Dataset(impl_->with_rows(indices));
}

Dataset Dataset::shuffle(std::uint64_t seed) const {
  return Dataset(impl_->with_rows(shuffled(size(), seed)));
}

DatasetSplit Dataset::train_test_split(const SplitOptions& options) const {
  const std::int64_t test = test_rows(options, size());
  std::vector<std::int64_t> order;
  if (options.shuffle) {
    order = shuffled(size(), options.seed);
  } else {
    order.resize(static_cast<std::size_t>(size()));
    std::iota(order.begin(), order.end(), 0);
  }
  const auto border = order.end() - test;
  return {
      Dataset(impl_->with_rows({order.begin(), border})),
      Dataset(impl_->with_rows({border, order.end()}))};
}

Dataset Dataset::rename_column(
    std::string_view from, std::string_view to) const {
  const std::size_t index = impl_->column_index(from);
  auto names = column_names();
  if (to.empty() ||
      (to != from && std::count(names.begin(), names.end(), to))) {
    throw ArgumentError(str_cat(
        "`rename_column`: ",
        to.empty() ? "the new name is empty"
                   : str_cat("a column `", to, "` already exists")));
  }
  names[index] = to;
  std::vector<std::size_t> indices(names.size());
  std::iota(indices.begin(), indices.end(), 0);
  return Dataset(impl_->with_columns(indices, names));
}

Dataset Dataset::remove_columns(const std::vector<std::string>& names) const {
  std::vector<bool> removed(columns().size());
  for (const std::size_t index : impl_->column_indices(names)) {
    removed[index] = true;
  }
  std::vector<std::size_t> indices;
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < removed.size(); ++i) {
    if (!removed[i]) {
      indices.push_back(i);
      kept.push_back(columns()[i].name);
    }
  }
  return Dataset(impl_->with_columns(indices, kept));
}

}  // namespace transformers
