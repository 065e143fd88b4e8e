// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker_thread.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/thread_without_signals.h"

namespace accelerate {
namespace {

// A tracker that fails in a different way each time must not fill the screen.
constexpr std::size_t kMaxPrintedReasons = 3;

void print_tracker_warning(const std::string& text) {
  std::cerr << str_cat("warning: ", printable_lines(text), "\n") << std::flush;
}

}  // namespace

struct TrackerThread::Shared {
  using Records = std::vector<std::shared_ptr<TrackerRecord>>;

  std::shared_ptr<GeneralTracker> tracker;
  std::string name;
  TrackerLimits limits;

  std::mutex mutex;
  std::condition_variable changed;
  Records queue;
  std::size_t queued_bytes = 0;
  bool idle = false;  // The thread waits until it is woken.
  bool finishing = false;
  bool finished = false;
  std::int64_t added = 0;
  std::int64_t dropped = 0;
  std::int64_t failed = 0;
  std::int64_t in_delivery = 0;

  // Used only by the thread.
  std::set<std::string> printed_reasons;

  /// Waits for records. Returns them, or nothing at the end.
  Records take();
  void deliver(const Records& records);
  bool attempt(const std::function<void()>& call);
};

TrackerThread::Shared::Records TrackerThread::Shared::take() {
  std::unique_lock lock(mutex);
  while (queue.empty() && !finishing) {
    // Records that come now are taken at the end of the period.
    changed.wait_for(lock, limits.period, [this] { return finishing; });
    if (queue.empty() && !finishing) {
      idle = true;
      changed.wait(lock, [this] { return finishing || !queue.empty(); });
      idle = false;
    }
  }
  queued_bytes = 0;
  in_delivery = static_cast<std::int64_t>(queue.size());
  return std::exchange(queue, {});
}

bool TrackerThread::Shared::attempt(const std::function<void()>& call) {
  std::string reason;
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
    reason = "an unknown exception";
  }
  if (printed_reasons.size() < kMaxPrintedReasons &&
      printed_reasons.insert(reason).second) {
    print_tracker_warning(str_cat(
        "tracker `",
        name,
        "` failed to store some values: ",
        reason,
        "; training continues"));
  }
  return false;
}

void TrackerThread::Shared::deliver(const Records& records) {
  std::int64_t failures = 0;
  std::int64_t unflushed = 0;
  for (const auto& record : records) {
    if (attempt([&] { record->deliver(*tracker); })) {
      ++unflushed;
    } else {
      ++failures;
    }
  }
  if (!attempt([&] { tracker->flush(); })) {
    failures += unflushed;
  }
  const std::scoped_lock lock(mutex);
  failed += failures;
  in_delivery = 0;
}

void TrackerThread::work(Shared& shared) {
  for (;;) {
    const auto records = shared.take();
    if (records.empty()) {
      break;
    }
    shared.deliver(records);
  }
  shared.attempt([&] { shared.tracker->finish(); });
  const std::scoped_lock lock(shared.mutex);
  shared.finished = true;
  shared.changed.notify_all();
}

TrackerThread::TrackerThread(
    std::shared_ptr<GeneralTracker> tracker, const TrackerLimits& limits)
    : shared_(std::make_shared<Shared>()) {
  shared_->name = tracker->name();
  shared_->tracker = std::move(tracker);
  shared_->limits = limits;
  shared_->limits.finish_timeout =
      std::max(limits.finish_timeout, shared_->tracker->finish_timeout());
  start_thread_without_signals([shared = shared_] { work(*shared); }).detach();
}

TrackerThread::~TrackerThread() {
  finish();
}

const std::string& TrackerThread::name() const {
  return shared_->name;
}

GeneralTracker& TrackerThread::tracker() const {
  return *shared_->tracker;
}

const std::shared_ptr<GeneralTracker>& TrackerThread::shared_tracker() const {
  return shared_->tracker;
}

void TrackerThread::add(std::shared_ptr<TrackerRecord> record) {
  const std::size_t bytes = record->bytes();
  bool wake = false;
  bool first_dropped = false;
  {
    const std::scoped_lock lock(shared_->mutex);
    ++shared_->added;
    const bool full =
        shared_->queue.size() >= shared_->limits.max_records ||
        (!shared_->queue.empty() &&
         shared_->queued_bytes + bytes > shared_->limits.max_bytes);
    if (full && record->may_be_dropped()) {
      first_dropped = shared_->dropped++ == 0;
    } else {
      shared_->queue.push_back(std::move(record));
      shared_->queued_bytes += bytes;
      wake = shared_->idle;
    }
  }
  if (wake) {
    shared_->changed.notify_one();
  }
  if (first_dropped) {
    print_tracker_warning(str_cat(
        "tracker `",
        shared_->name,
        "` cannot keep up with this run, so values are dropped; training "
        "continues"));
  }
}

void TrackerThread::finish() {
  std::unique_lock lock(shared_->mutex);
  if (std::exchange(shared_->finishing, true)) {
    return;
  }
  shared_->changed.notify_all();
  const bool in_time =
      shared_->changed.wait_for(lock, shared_->limits.finish_timeout, [this] {
        return shared_->finished;
      });
  const std::int64_t lost = shared_->dropped + shared_->failed +
                            shared_->in_delivery +
                            static_cast<std::int64_t>(shared_->queue.size());
  if (!in_time) {
    // What the thread has not taken yet stays undelivered.
    shared_->queue.clear();
  }
  std::vector<std::string> problems;
  if (!in_time) {
    problems.emplace_back("did not finish in time");
  }
  if (lost > 0) {
    problems.push_back(
        str_cat("lost up to ", lost, " of ", shared_->added, " calls"));
  }
  if (!problems.empty()) {
    print_tracker_warning(
        str_cat("tracker `", shared_->name, "` ", join(problems, " and ")));
  }
}

}  // namespace accelerate
