// SPDX-License-Identifier: Apache-2.0
// The state behind a data loader.
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
      std::shared_ptr<detail::BatchSource> source,
      detail::LoaderSettings settings);
  /// The same loader with a place of its own.
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
  void refuse_in_loop(const char* what) const;

  /// A loop begins: what it reads, and where it stands.
  std::unique_ptr<StepReader> begin_reading();
  void take(const Portion& portion, const Step& step);
  struct Place {
    Portion portion;
    /// Units used in this epoch.
    std::int64_t used = 0;
    /// Where a stream was then, on a process that reads it.
    Json stream_state = {};
  };
  const Place& place() const { return place_; }
  void return_to(const Place& place) { place_ = place; }
  void complete_epoch();

  bool end_of_dataloader() const override { return place_.portion.last; }
  std::int64_t rows() const override { return place_.portion.rows; }
  std::int64_t valid_rows() const override { return place_.portion.valid_rows; }

  std::shared_ptr<detail::BatchSource> source;
  const detail::LoaderSettings settings;
  ShardOptions options;
  std::int64_t epoch = 0;
  int loops = 0;

 private:
  void check_shard(const ShardOptions& wanted) const;
  void agree();
  void synchronize_generators();
  std::unique_ptr<StepReader> make_reader(
      std::int64_t start, const std::vector<ShardRules>& rules);

  /// Of the order, once something has asked for it.
  mutable std::optional<std::uint64_t> seed_;
  bool seed_is_loaded_ = false;
  Place place_;
  /// Where the next loop begins.
  std::int64_t start_ = 0;
  /// A place of the stream to go there from, and the samples used at it.
  Json start_state_;
  std::int64_t state_start_ = 0;
  /// `size()` is that of the rest of an epoch.
  bool skips_ = false;
};

}  // namespace accelerate
