// SPDX-License-Identifier: Apache-2.0
// The records that wait in the queues of trackers.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

#include "accelerate/tracker.h"

namespace accelerate {

/// One call to all trackers of a run. Each tracker has a thread, and several
/// threads may deliver the same record at the same time.
class TrackerRecord {
 public:
  TrackerRecord() = default;
  TrackerRecord(const TrackerRecord&) = delete;
  TrackerRecord& operator=(const TrackerRecord&) = delete;
  virtual ~TrackerRecord() = default;

  /// Waits until the values can be read, and passes them to a tracker.
  virtual void deliver(GeneralTracker& tracker) = 0;
  /// Returns approximately how many bytes of memory the record takes.
  virtual std::size_t bytes() const = 0;
  /// Returns whether the record may be dropped when the tracker is too slow.
  virtual bool may_be_dropped() const { return true; }
};

/// Values that are passed to the function `Call` of a tracker. Before the first
/// tracker gets the values, `complete` is called once, on that tracker's
/// thread. It waits for pending numbers and does other slow work, so that the
/// training thread does not have to.
template <typename Values, auto Call>
class ValuesRecord : public TrackerRecord {
 public:
  ValuesRecord(
      Values values, std::size_t bytes, std::function<void(Values&)> complete)
      : values_(std::move(values)),
        bytes_(bytes),
        complete_(std::move(complete)) {}

  void deliver(GeneralTracker& tracker) override {
    std::call_once(completed_, [this] {
      if (complete_) {
        complete_(values_);
      }
    });
    (tracker.*Call)(values_);
  }
  std::size_t bytes() const override { return bytes_; }

 private:
  Values values_;
  std::size_t bytes_;
  std::function<void(Values&)> complete_;
  std::once_flag completed_;
};

using LoggedValues = ValuesRecord<TrackedValues, &GeneralTracker::log>;
using LoggedImages = ValuesRecord<TrackedImages, &GeneralTracker::log_images>;
using LoggedTable = ValuesRecord<TrackedTable, &GeneralTracker::log_table>;

}  // namespace accelerate
