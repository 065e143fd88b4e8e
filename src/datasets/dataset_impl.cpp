// SPDX-License-Identifier: Apache-2.0
#include "datasets/dataset_impl.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "datasets/row_builder.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;

Dataset::Impl::Impl(datasets::TablePointer table)
    : table_(std::move(table)),
      columns_(table_->columns()),
      column_indices_(columns_.size()) {
  std::iota(column_indices_.begin(), column_indices_.end(), 0);
}

std::int64_t Dataset::Impl::size() const {
  return indices_ ? static_cast<std::int64_t>(indices_->size())
                  : table_->rows();
}

Row Dataset::Impl::get(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw ArgumentError(str_cat(
        "row ", index, " is out of range for a dataset of size ", size()));
  }
  auto values = table_->read(
      indices_ ? (*indices_)[static_cast<std::size_t>(index)] : index);
  std::vector<Row::Cell> cells;
  cells.reserve(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    cells.emplace_back(columns_[i].name, std::move(values[column_indices_[i]]));
  }
  return datasets::RowBuilder::row(std::move(cells));
}

std::string Dataset::Impl::fingerprint() const {
  std::string key = table_->fingerprint();
  if (indices_) {
    key += accelerate::sha256_hex(
        {reinterpret_cast<const char*>(indices_->data()),
         indices_->size() * sizeof(std::int64_t)});
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    key += str_cat("\n", column_indices_[i], " ", columns_[i].name);
  }
  return accelerate::sha256_hex(key);
}

std::shared_ptr<Dataset::Impl> Dataset::Impl::with_rows(
    std::vector<std::int64_t> positions) const {
  if (indices_) {
    for (std::int64_t& position : positions) {
      position = (*indices_)[static_cast<std::size_t>(position)];
    }
  }
  auto result = std::make_shared<Impl>(*this);
  result->indices_ =
      std::make_shared<const std::vector<std::int64_t>>(std::move(positions));
  return result;
}

std::shared_ptr<Dataset::Impl> Dataset::Impl::with_columns(
    const std::vector<std::size_t>& indices,
    const std::vector<std::string>& names) const {
  auto result = std::make_shared<Impl>(*this);
  result->columns_.clear();
  result->column_indices_.clear();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    result->columns_.push_back({names[i], columns_[indices[i]].type});
    result->column_indices_.push_back(column_indices_[indices[i]]);
  }
  return result;
}

std::size_t Dataset::Impl::column_index(std::string_view column) const {
  const auto found = std::find_if(
      columns_.begin(), columns_.end(), [&](const Column& candidate) {
        return candidate.name == column;
      });
  if (found == columns_.end()) {
    refuse_column(column);
  }
  return static_cast<std::size_t>(found - columns_.begin());
}

std::vector<std::size_t> Dataset::Impl::column_indices(
    const std::vector<std::string>& columns) const {
  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    index_of.emplace(columns_[i].name, i);
  }
  std::vector<std::size_t> indices;
  for (const std::string& column : columns) {
    const auto found = index_of.find(column);
    if (found == index_of.end()) {
      refuse_column(column);
    }
    indices.push_back(found->second);
  }
  return indices;
}

void Dataset::Impl::refuse_column(std::string_view column) const {
  std::vector<std::string> names;
  for (const Column& existing : columns_) {
    names.push_back(existing.name);
  }
  throw ArgumentError(
      str_cat(
          "the dataset has no column `",
          column,
          "`; ",
          names.empty()
              ? "it has no columns"
              : str_cat("its columns are ", accelerate::join(names, ", "))),
      accelerate::did_you_mean(column, names));
}

}  // namespace transformers
