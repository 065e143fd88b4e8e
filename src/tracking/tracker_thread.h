// SPDX-License-Identifier: Apache-2.0
// Calls one tracker on a thread of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "tracking/tracker_record.h"

namespace accelerate {

struct TrackerLimits {
  std::size_t max_records = 4096;
  std::size_t max_bytes = std::size_t{64} << 20;
  /// How long new records may wait before the thread looks at the queue.
  std::chrono::milliseconds period{50};
  /// How long `finish` waits for the tracker.
  std::chrono::milliseconds finish_timeout{10'000};
};

/// NOTE [Tracker threads]
/// `add` must cost as little as possible. To wake a sleeping thread costs more
/// than everything else together, so the thread of a busy tracker looks at its
/// queue once per period by itself, and `add` wakes it only after a period in
/// which the queue stayed empty. After each batch of records, the tracker's
/// `flush` makes them readable, so a process that is killed loses at most the
/// values of one period.
///
/// The queue is limited. When it is full, new records are dropped; one warning
/// says when this began, and `finish` says how many there were. A tracker that
/// throws also loses records; each reason is printed once. The tracker is
/// called again for the next record: a disk may have space again.
class TrackerThread {
 public:
  TrackerThread(
      std::shared_ptr<GeneralTracker> tracker, const TrackerLimits& limits);
  TrackerThread(const TrackerThread&) = delete;
  TrackerThread& operator=(const TrackerThread&) = delete;
  /// Calls `finish`.
  ~TrackerThread();

  const std::string& name() const;
  GeneralTracker& tracker() const;
  const std::shared_ptr<GeneralTracker>& shared_tracker() const;

  /// Adds a record, or drops it if the queue is full. Never waits.
  void add(std::shared_ptr<TrackerRecord> record);
  /// Waits until the tracker has everything, and finishes it. After the
  /// timeout, leaves the tracker to its thread and prints a warning. Later
  /// calls do nothing.
  void finish();

 private:
  struct Shared;
  static void work(Shared& shared);

  // The thread also owns it: a tracker that never returns must not keep the
  // program from ending.
  std::shared_ptr<Shared> shared_;
};

}  // namespace accelerate
