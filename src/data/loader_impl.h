// SPDX-License-Identifier: Apache-2.0
// The implementation of a data loader.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "accelerate/data_loader_base.h"
#include "accelerate/sharding.h"
#include "data/step.h"
#include "state/gradient_state.h"

namespace accelerate {

class DataLoaderBase::Impl : public LoaderPosition {
 public:
  Impl(
      std::shared_ptr<detail::BatchSource> source, detail::LoaderConfig config);
  /// Copies the loader. The copy has its own position.
  Impl(const Impl& other);
  ~Impl() override;

  std::int64_t size() const;
  std::optional<std::int64_t> units() const;
  std::int64_t total_batch_size() const;
  bool dispatches() const;
  ShardRules rules(std::int64_t process_index) const;
  std::uint64_t seed() const;

  void set_epoch(std::int64_t epoch);
  Json state_dict() const;
  void load_state_dict(const Json& state);
  void shard(const ShardOptions& options);
  void skip(std::int64_t batches);
  void check_not_in_loop(const char* caller) const;

  /// Starts a loop over the loader and returns a reader for the steps of the
  /// loop.
  std::unique_ptr<StepReader> begin_reading();
  void take(const Portion& portion, const Step& step);
  struct Position {
    Portion portion;
    /// Number of units (samples, or batches of a batch sampler) used in this
    /// epoch.
    std::int64_t used = 0;
    /// The state of the stream after these units. Null on a process that does
    /// not read the stream.
    Json stream_state = {};
  };
  const Position& position() const { return position_; }
  void restore_position(const Position& position) { position_ = position; }
  void complete_epoch();

  bool end_of_dataloader() const override { return position_.portion.last; }
  std::int64_t rows() const override { return position_.portion.rows; }
  std::int64_t valid_rows() const override {
    return position_.portion.valid_rows;
  }

  std::shared_ptr<detail::BatchSource> source;
  const detail::LoaderConfig config;
  ShardOptions options;
  std::int64_t epoch = 0;
  int loops = 0;

 private:
  void check_shard(const ShardOptions& requested) const;
  void agree_on_config();
  void synchronize_generators();
  std::unique_ptr<StepReader> make_reader(
      std::int64_t start, const std::vector<ShardRules>& rules);

  /// The seed for the sample order, set when it is first needed.
  mutable std::optional<std::uint64_t> seed_;
  bool seed_is_loaded_ = false;
  Position position_;
  /// The unit at which the next loop begins.
  std::int64_t start_ = 0;
  /// The saved state from which the next loop restores the stream, if any.
  Json start_state_;
  /// Number of samples that had been used when `start_state_` was saved.
  std::int64_t state_start_ = 0;
  /// If true, `size()` counts only the batches from `start_` to the end of the
  /// epoch.
  bool skips_ = false;
};

}  // namespace accelerate
