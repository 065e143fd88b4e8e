// SPDX-License-Identifier: Apache-2.0
// Creates rows without checking for duplicate columns.
#pragma once

#include <utility>
#include <vector>

#include "transformers/dataset.h"

namespace transformers::datasets {

class RowBuilder {
 public:
  /// Returns a row with these cells. No two cells may have the same column.
  static Row row(std::vector<Row::Cell> cells) {
    Row result;
    result.cells_ = std::move(cells);
    return result;
  }
};

}  // namespace transformers::datasets
