// SPDX-License-Identifier: Apache-2.0
// Threads that work ahead and hand over their results in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace accelerate {

/// Runs jobs 0, 1, 2, … on threads, at most `capacity` ahead of `next`.
///
/// The threads stop at the first job that gives nothing or throws, and when
/// the pool is destroyed, which waits for the jobs under way.
template <typename Result>
class OrderedPool {
 public:
  using Job = std::function<std::optional<Result>(
      std::int64_t job, std::int64_t thread)>;

  OrderedPool(std::int64_t threads, std::int64_t capacity, Job job)
      : job_(std::move(job)), slots_(static_cast<std::size_t>(capacity)) {
    for (std::int64_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { run(i); });
    }
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  ~OrderedPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    space_.notify_all();
    threads_.clear();  // Joins.
  }

  /// The result of the next job: nothing after the last, its exception if it
  /// threw.
  std::optional<Result> next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    done_.wait(lock, [&] { return slot.ready; });
    if (slot.error) {
      std::rethrow_exception(slot.error);
    }
    if (!slot.result) {
      return std::nullopt;
    }
    auto result = std::exchange(slot.result, std::nullopt);
    slot.ready = false;
    ++taken_;
    lock.unlock();
    space_.notify_one();
    return result;
  }

 private:
  struct Slot {
    bool ready = false;
    std::optional<Result> result = std::nullopt;
    std::exception_ptr error = nullptr;
  };

  Slot& slot_of(std::int64_t job) {
    return slots_[static_cast<std::size_t>(job) % slots_.size()];
  }

  void run(std::int64_t thread) {
    std::unique_lock lock(mutex_);
    for (;;) {
      space_.wait(lock, [&] { return stopping_ || has_space(); });
      if (stopping_) {
        return;
      }
      const std::int64_t job = started_++;
      lock.unlock();
      Slot filled = fill(job, thread);
      lock.lock();
      const bool last = filled.error || !filled.result;
      // Waking the consumer for a result that it cannot take yet costs more
      // than making a small one.
      const bool awaited = job == taken_;
      slot_of(job) = std::move(filled);
      stopping_ = stopping_ || last;
      lock.unlock();
      if (awaited) {
        done_.notify_one();
      }
      if (last) {
        space_.notify_all();
      }
      lock.lock();
    }
  }

  bool has_space() const {
    return started_ - taken_ < static_cast<std::int64_t>(slots_.size());
  }

  Slot fill(std::int64_t job, std::int64_t thread) const {
    Slot slot{.ready = true};
    try {
      slot.result = job_(job, thread);
    } catch (...) {
      slot.error = std::current_exception();
    }
    return slot;
  }

  const Job job_;
  std::mutex mutex_;  // Guards the members below.
  std::condition_variable space_;
  std::condition_variable done_;
  std::vector<Slot> slots_;
  std::int64_t started_ = 0;
  std::int64_t taken_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace accelerate
