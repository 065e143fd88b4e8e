// SPDX-License-Identifier: Apache-2.0
// The batches of one step of a loop over a data loader.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/detail/batch_source.h"

namespace accelerate {

/// The batch of one process in a step. If `batch` is null and `rows` is 0, the
/// process has no batch in this step; this happens only in the last step.
struct Portion {
  detail::Opaque batch = nullptr;
  std::int64_t rows = 0;
  std::int64_t valid_rows = 0;
  /// Whether this is the last batch on this process.
  bool last = false;
};

/// One step of a loop: the batches of all processes for which the reader reads.
struct Step {
  std::vector<Portion> portions = {};
  /// Number of units of the epoch (samples, or batches of a batch sampler) that
  /// all processes together have used after this step.
  std::int64_t used = 0;
  /// The state of the dataset after this step, if the dataset is a stream that
  /// has a state; otherwise null.
  Json stream_state = {};
};

/// Reads the steps of an epoch in order.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual std::optional<Step> next() = 0;
  /// Returns whether `next` would return or throw without waiting, because a
  /// worker has already read the step or failed.
  virtual bool is_ready() { return false; }
};

}  // namespace accelerate
