// SPDX-License-Identifier: Apache-2.0
// The trackers of one run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "tracking/tracker_thread.h"

namespace accelerate {

/// Starts trackers, passes every call to each of them, and finishes them. Sets
/// the step and the time of each call.
///
/// Thread safety: use this object only from the training thread.
class TrackerSet {
 public:
  explicit TrackerSet(const TrackerLimits& limits = {});
  TrackerSet(const TrackerSet&) = delete;
  TrackerSet& operator=(const TrackerSet&) = delete;
  /// Calls `finish`.
  ~TrackerSet();

  /// Starts a tracker. Throws what its `start` throws.
  void add(std::shared_ptr<GeneralTracker> tracker, const TrackerSetup& setup);
  bool empty() const { return threads_.empty(); }
  /// Returns the tracker with this name, or a null pointer.
  std::shared_ptr<GeneralTracker> find(const std::string& name) const;
  std::vector<std::string> names() const;

  void store_init_configuration(const Json& config);

  /// Passes values to all trackers. Without a step, uses the step after the
  /// last one. `bytes` is the approximate size of the values. `complete` fills
  /// in values that are not known yet, and is called on another thread. Never
  /// waits.
  void log(
      TrackedValues values,
      std::optional<std::int64_t> step,
      std::size_t bytes,
      std::function<void(TrackedValues&)> complete = {});
  void log_images(
      TrackedImages images,
      std::optional<std::int64_t> step,
      std::size_t bytes,
      std::function<void(TrackedImages&)> complete = {});
  void log_table(
      TrackedTable table, std::optional<std::int64_t> step, std::size_t bytes);

  /// Returns the state for a checkpoint: the next step, the time of the last
  /// call, and the state of each tracker. See NOTE [Resumed runs].
  Json state_dict() const;
  /// Continues the run of a checkpoint, also in trackers that are added later.
  /// Does nothing if this process has already logged values, because the
  /// program has then only gone back to an earlier state of its own run.
  void load_state_dict(const Json& state);

  /// Waits until the trackers have handled all records, and closes them.
  void finish();

 private:
  class StepOrder;

  template <typename Values>
  void stamp(Values& values, std::optional<std::int64_t> step);
  void add_to_all(const std::shared_ptr<TrackerRecord>& record);
  void resume(TrackerThread& thread);

  TrackerLimits limits_;
  std::vector<std::unique_ptr<TrackerThread>> threads_;
  std::shared_ptr<StepOrder> order_;
  std::string run_;
  std::optional<Json> loaded_;
  std::int64_t next_step_ = 0;
  std::int64_t last_time_us_ = 0;
  bool logged_ = false;
};

}  // namespace accelerate
