// SPDX-License-Identifier: Apache-2.0
// Steps of a stream: read in order, one step ahead.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/sharding.h"
#include "data/ordered_pool.h"
#include "data/step.h"

namespace accelerate {

struct StreamEpoch {
  std::shared_ptr<detail::BatchSource> source;
  /// Samples that were used before: they are read and dropped.
  std::int64_t start = 0;
  std::vector<ShardRules> rules;
  /// Read on a thread of its own, that many steps ahead; 0: by the caller.
  std::int64_t ahead = 0;
};

/// Every process reads the whole stream and keeps its slice of each step.
///
/// The step that follows is read before one is handed over: so the last is
/// known as such. The samples of the first step are kept, to complete the last.
class StreamSteps : public StepReader {
 public:
  explicit StreamSteps(StreamEpoch epoch);
  std::optional<Step> next() override;

 private:
  using Samples = std::vector<detail::Opaque>;

  std::optional<Step> read();
  void drop_used();
  Samples read_window(std::int64_t limit);
  void look_ahead();
  Portion cut(const IterableDatasetShard& slices, const Samples& current) const;

  const StreamEpoch epoch_;
  std::vector<IterableDatasetShard> slices_;
  bool keep_first_;
  bool begun_ = false;
  std::int64_t read_ = 0;
  Samples first_;
  Samples ahead_;
  std::exception_ptr error_ahead_;
  std::optional<OrderedPool<Step>> pool_;
};

}  // namespace accelerate
