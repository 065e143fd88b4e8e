// SPDX-License-Identifier: Apache-2.0
#include "data/stream_steps.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "data/pinning.h"

namespace accelerate {

// Runs on one thread at a time: the worker's or the loop's.
class StreamSteps::Reader {
 public:
  explicit Reader(StreamEpoch epoch) : epoch_(std::move(epoch)) {
    for (const ShardRules& rules : epoch_.rules) {
      slices_.emplace_back(rules);
    }
    const ShardRules& rules = epoch_.rules.front();
    keep_first_ = rules.even_batches && !rules.drop_last;
  }

  const StreamEpoch& epoch() const { return epoch_; }
  std::optional<Step> read();
  std::string describe_read() const { return progress_.describe(); }

 private:
  using Samples = std::vector<detail::Opaque>;

  void drop_used();
  Samples read_window(std::int64_t limit);
  void look_ahead();
  Portion cut(const IterableDatasetShard& slices, const Samples& current);

  const StreamEpoch epoch_;
  std::vector<IterableDatasetShard> slices_;
  bool keep_first_;
  bool begun_ = false;
  std::int64_t read_ = 0;
  Samples first_;
  Samples ahead_;
  std::exception_ptr error_ahead_;
  detail::ReadProgress progress_;
};

StreamSteps::StreamSteps(StreamEpoch epoch)
    : reader_(std::make_shared<Reader>(std::move(epoch))) {
  PoolOptions options = reader_->epoch().pool;
  options.threads = std::min<std::int64_t>(options.threads, 1);
  options.describe_read = [reader = reader_](std::int64_t) {
    return reader->describe_read();
  };
  if (options.threads > 0) {
    pool_.emplace(options, [reader = reader_](std::int64_t, std::int64_t) {
      return reader->read();
    });
  }
}

std::optional<Step> StreamSteps::next() {
  return pool_ ? pool_->next() : reader_->read();
}

std::optional<Step> StreamSteps::Reader::read() {
  if (!std::exchange(begun_, true)) {
    drop_used();
    look_ahead();
  }
  if (error_ahead_) {
    std::rethrow_exception(std::exchange(error_ahead_, nullptr));
  }
  const Samples current = std::move(ahead_);
  Step step;
  step.used = read_;
  step.stream_state = epoch_.source->stream_state();
  ahead_.clear();
  if (static_cast<std::int64_t>(current.size()) == slices_.front().window()) {
    look_ahead();
  }
  bool any = false;
  for (const IterableDatasetShard& slices : slices_) {
    step.portions.push_back(cut(slices, current));
    any = any || step.portions.back().rows > 0;
  }
  return any ? std::optional(std::move(step)) : std::nullopt;
}

// An error while reading ahead must not hide the step before it.
void StreamSteps::Reader::look_ahead() {
  try {
    ahead_ = read_window(slices_.front().window());
  } catch (...) {
    error_ahead_ = std::current_exception();
  }
}

void StreamSteps::Reader::drop_used() {
  const std::int64_t window = slices_.front().window();
  if (!epoch_.state.is_null() && epoch_.state_start >= window) {
    if (keep_first_) {
      read_window(window);
    }
    epoch_.source->load_stream_state(epoch_.state);
    read_ = epoch_.state_start;
  }
  while (read_ < epoch_.start) {
    if (read_window(1).empty()) {
      return;
    }
  }
}

StreamSteps::Reader::Samples StreamSteps::Reader::read_window(
    std::int64_t limit) {
  Samples samples;
  while (static_cast<std::int64_t>(samples.size()) < limit) {
    detail::Opaque sample;
    progress_.read(read_);
    try {
      sample = epoch_.source->next();
    } catch (...) {
      detail::rethrow_for_sample(read_);
    }
    if (!sample) {
      break;
    }
    ++read_;
    if (keep_first_ &&
        static_cast<std::int64_t>(first_.size()) < slices_.front().window()) {
      first_.push_back(sample);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

Portion StreamSteps::Reader::cut(
    const IterableDatasetShard& slices, const Samples& current) {
  const auto size = static_cast<std::int64_t>(current.size());
  const BatchRange range = slices.slice(size);
  Portion portion{.rows = range.rows, .valid_rows = range.valid_rows};
  if (range.rows == 0) {
    return portion;
  }
  Samples samples;
  for (std::int64_t i = range.begin; i < range.begin + range.rows; ++i) {
    samples.push_back(
        i < size ? current[static_cast<std::size_t>(i)]
                 : first_[static_cast<std::size_t>(i - size) % first_.size()]);
  }
  progress_.collate();
  portion.batch = epoch_.source->collate(samples);
  if (epoch_.pin_memory) {
    pin(*epoch_.source, portion);
  }
  portion.last =
      !error_ahead_ &&
      slices.slice(static_cast<std::int64_t>(ahead_.size())).rows == 0;
  return portion;
}

}  // namespace accelerate
