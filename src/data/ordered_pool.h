// SPDX-License-Identifier: Apache-2.0
// Threads that prefetch results and return them in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "data/pool_options.h"

namespace accelerate {

/// Runs jobs 0, 1, 2, … on several threads. At most `capacity` jobs are running
/// or have results that `next` has not returned yet.
///
/// After a job returns nothing or throws an exception, no further job starts.
/// The destructor waits for running jobs, up to the timeout. A job that times
/// out is abandoned: its thread is detached and keeps running, so the job must
/// own everything that it uses.
template <typename Result>
class OrderedPool {
 public:
  using Job = std::function<std::optional<Result>(
      std::int64_t job, std::int64_t thread)>;

  OrderedPool(PoolOptions options, Job job)
      : shared_(std::make_shared<Shared>(std::move(options), std::move(job))) {
    for (std::int64_t i = 0; i < shared_->options.threads; ++i) {
      threads_.emplace_back([shared = shared_, i] { shared->run(i); });
    }
  }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  ~OrderedPool() {
    const bool ended = shared_->stop();
    for (std::thread& thread : threads_) {
      ended ? thread.join() : thread.detach();
    }
  }

  /// Waits for the next job and returns its result; empty after the last job.
  /// Rethrows the job's exception. Throws `IoError` if the job times out.
  std::optional<Result> next() { return shared_->next(); }
  /// Returns whether `next` would return without waiting.
  bool is_ready() { return shared_->is_ready(); }

 private:
  struct Slot {
    bool ready = false;
    std::int64_t thread = kNoThread;
    std::optional<Result> result = std::nullopt;
    std::exception_ptr error = nullptr;
  };

  // Shared with the threads; lives until the last thread has ended.
  class Shared {
   public:
    Shared(PoolOptions options_, Job job)
        : options(std::move(options_)),
          job_(std::move(job)),
          slots_(static_cast<std::size_t>(options.capacity)),
          running_(options.threads) {}

    std::optional<Result> next() {
      std::unique_lock lock(mutex_);
      Slot& slot = slot_of(taken_);
      await(lock, slot);
      if (slot.error) {
        std::rethrow_exception(slot.error);
      }
      if (!slot.result) {
        return std::nullopt;
      }
      auto result = std::exchange(slot.result, std::nullopt);
      slot = {};
      ++taken_;
      // Waking a thread costs more than one small job, so an idle thread is
      // woken only when at least half of the slots are free.
      const bool wake = idle_ > 0 && 2 * free_slots() >= options.capacity;
      lock.unlock();
      if (wake) {
        space_.notify_one();
      }
      return result;
    }

    bool is_ready() {
      const std::lock_guard lock(mutex_);
      return slot_of(taken_).ready;
    }

    void run(std::int64_t thread) {
      std::unique_lock lock(mutex_);
      while (wait_for_space(lock)) {
        const std::int64_t job = started_++;
        slot_of(job).thread = thread;
        lock.unlock();
        Slot filled = fill(job, thread);
        lock.lock();
        const bool last = filled.error || !filled.result;
        slot_of(job) = std::move(filled);
        stopping_ = stopping_ || last;
        // `next` takes results in order, so other results do not wake it.
        if (job == taken_) {
          done_.notify_one();
        }
        if (last) {
          space_.notify_all();
        }
      }
      if (--running_ == 0) {
        done_.notify_all();
      }
    }

    /// Makes the threads stop, and waits for them up to the timeout. Returns
    /// whether all threads have ended.
    bool stop() {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      space_.notify_all();
      const auto ended = [&] { return running_ == 0; };
      if (timed_out_ || done_.wait_for(lock, options.warn_after, ended)) {
        return running_ == 0;
      }
      warn_stopping(options, busy_thread());
      return done_.wait_for(lock, options.timeout, ended);
    }

    const PoolOptions options;

   private:
    void await(std::unique_lock<std::mutex>& lock, const Slot& slot) {
      const auto ready = [&] { return slot.ready; };
      const auto first = std::min(options.warn_after, options.timeout);
      if (done_.wait_for(lock, first, ready)) {
        return;
      }
      if (first < options.timeout) {
        warn_waiting(options, slot.thread);
        if (done_.wait_for(lock, options.timeout - first, ready)) {
          return;
        }
      }
      timed_out_ = true;
      throw_timeout(options, slot.thread);
    }

    // Returns false when there is nothing more to do.
    bool wait_for_space(std::unique_lock<std::mutex>& lock) {
      ++idle_;
      space_.wait(lock, [&] { return stopping_ || free_slots() > 0; });
      --idle_;
      return !stopping_;
    }

    std::int64_t free_slots() const {
      return options.capacity - (started_ - taken_);
    }

    Slot& slot_of(std::int64_t job) {
      return slots_[static_cast<std::size_t>(job) % slots_.size()];
    }

    std::int64_t busy_thread() const {
      for (const Slot& slot : slots_) {
        if (!slot.ready && slot.thread != kNoThread) {
          return slot.thread;
        }
      }
      return kNoThread;
    }

    Slot fill(std::int64_t job, std::int64_t thread) const {
      Slot slot{.ready = true, .thread = thread};
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
    std::int64_t idle_ = 0;
    std::int64_t running_;
    bool stopping_ = false;
    bool timed_out_ = false;
  };

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace accelerate
