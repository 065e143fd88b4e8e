// SPDX-License-Identifier: Apache-2.0
// Applies BPE merges to the symbols of one word.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizers/models/merge_table.h"

namespace transformers::tokenizers {

struct Symbol {
  std::uint32_t id;
  std::uint32_t bytes;
};

/// Repeatedly merges the pair with the lowest rank (the leftmost pair on ties)
/// until no merge applies. Short words are scanned, which needs no extra
/// memory. Long words use a heap, which takes O(n log n) time.
void merge_all(std::vector<Symbol>& symbols, const MergeTable& merges);

}  // namespace transformers::tokenizers
