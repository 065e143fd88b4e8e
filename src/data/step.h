// SPDX-License-Identifier: Apache-2.0
// What one step of a loop gives to processes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/detail/batch_source.h"

namespace accelerate {

/// One process's batch; none and no rows where it has no part in a last step.
struct Portion {
  detail::Opaque batch = nullptr;
  std::int64_t rows = 0;
  std::int64_t valid_rows = 0;
  /// No batch follows on this process.
  bool last = false;
};

struct Step {
  std::vector<Portion> portions = {};
  /// Units (samples, or batches of a batch sampler) of the epoch that all
  /// processes together have used after it.
  std::int64_t used = 0;
  /// Where a stream was then, if it can say so.
  Json stream_state = {};
};

/// The steps of an epoch, one after the other.
class StepReader {
 public:
  virtual ~StepReader() = default;
  virtual std::optional<Step> next() = 0;
  /// Whether `next` neither reads anything itself nor waits: workers have the
  /// step, or what it throws.
  virtual bool is_ready() { return false; }
};

}  // namespace accelerate
