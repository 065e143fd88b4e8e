// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/contents.h"

namespace accelerate {

std::vector<TensorRange> replicated(const TensorMap& tensors) {
  std::vector<TensorRange> ranges;
  ranges.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ranges.push_back(
        {.name = name,
         .shape = tensor.sizes().vec(),
         .offset = 0,
         .values = tensor,
         .owner = RangeOwner::every_rank});
  }
  return ranges;
}

void CheckpointContents::write_from_main_rank() {
  for (auto& [key, tensors] : weights) {
    main_weights[key].merge(tensors);
    tensors.clear();
  }
  for (auto& [key, list] : ranges) {
    for (TensorRange& range : list) {
      if (range.owner == RangeOwner::every_rank) {
        range.owner = RangeOwner::main_rank;
      }
    }
  }
}

}  // namespace accelerate
