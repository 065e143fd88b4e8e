// SPDX-License-Identifier: Apache-2.0
#include "transformers/datasets/dataset_impl.h"

#include <numeric>
#include <utility>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {

using accelerate::ArgumentError;
using accelerate::str_cat;

Dataset::Impl::Impl(datasets::TablePointer table)
    : table_(std::move(table)),
      columns_(table_->columns()),
      places_(columns_.size()) {
  std::iota(places_.begin(), places_.end(), 0);
}

std::int64_t Dataset::Impl::size() const {
  return indices_ ? static_cast<std::int64_t>(indices_->size())
                  : table_->rows();
}

Row Dataset::Impl::get(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw ArgumentError(
        str_cat("row ", index, " of a dataset of ", size(), " rows"));
  }
  auto values = table_->read(
      indices_ ? (*indices_)[static_cast<std::size_t>(index)] : index);
  Row row;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    row.set(columns_[i].name, std::move(values[places_[i]]));
  }
  return row;
}

std::string Dataset::Impl::fingerprint() const {
  std::string all = table_->fingerprint();
  if (indices_) {
    all += accelerate::sha256_hex(
        {reinterpret_cast<const char*>(indices_->data()),
         indices_->size() * sizeof(std::int64_t)});
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    all += str_cat("\n", places_[i], " ", columns_[i].name);
  }
  return accelerate::sha256_hex(all);
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
    const std::vector<std::size_t>& places,
    const std::vector<std::string>& names) const {
  auto result = std::make_shared<Impl>(*this);
  result->columns_.clear();
  result->places_.clear();
  for (std::size_t i = 0; i < places.size(); ++i) {
    result->columns_.push_back({names[i], columns_[places[i]].type});
    result->places_.push_back(places_[places[i]]);
  }
  return result;
}

std::size_t Dataset::Impl::place_of(std::string_view column) const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == column) {
      return i;
    }
    names.push_back(columns_[i].name);
  }
  throw ArgumentError(
      str_cat(
          "the dataset has no column `",
          column,
          "`, it has ",
          names.empty() ? "none" : accelerate::join(names, ", ")),
      accelerate::did_you_mean(column, names));
}

}  // namespace transformers
