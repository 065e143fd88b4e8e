// SPDX-License-Identifier: Apache-2.0
// The symbols of one word while they merge.
#pragma once

#include <cstdint>
#include <vector>

#include "transformers/tokenizers/merge_table.h"

namespace transformers::tokenizers {

struct Symbol {
  std::uint32_t id;
  std::uint32_t bytes;
};

/// Merges the pair of the lowest rank, the leftmost of equals, until none is
/// left. `symbols` keeps what remains. Short words are scanned, since that
/// needs no memory; long ones use a heap, so that time stays n log n.
void merge_all(std::vector<Symbol>& symbols, const MergeTable& merges);

}  // namespace transformers::tokenizers
