// SPDX-License-Identifier: Apache-2.0
// Calls one tracker on its own thread.
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
  /// How long new records may wait before the thread checks the queue.
  std::chrono::milliseconds period{50};
  /// How long `finish` waits for the tracker.
  std::chrono::milliseconds finish_timeout{10'000};
};

/// NOTE [Tracker threads]
/// `add` must cost as little as possible. Waking a sleeping thread would cost
/// more than the rest of `add`, so the thread of a busy tracker checks its
/// queue once per period without being woken. `add` wakes the thread only after
/// a period in which the queue stayed empty. After each batch of records, the
/// tracker's `flush` makes them readable, so a process that is killed loses at
/// most the values of one period.
///
/// The size of the queue is limited. When it is full, new records are dropped.
/// One warning is printed when this begins, and `finish` prints how many
/// records were dropped. A record for which the tracker throws is also lost;
/// each distinct error is printed once. The tracker is still called for the
/// next record, because the cause, such as a full disk, may be gone by then.
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
  /// Waits until the tracker has handled all records, and finishes it. After
  /// the timeout, prints a warning and stops waiting; the thread continues to
  /// run. Later calls do nothing.
  void finish();

 private:
  struct Shared;
  static void work(Shared& shared);

  // The thread is also an owner, so that the program can end even if the
  // tracker never returns.
  std::shared_ptr<Shared> shared_;
};

}  // namespace accelerate
