// SPDX-License-Identifier: Apache-2.0
#include "transformers/tokenizers/batch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace transformers::tokenizers {
namespace {

// Less text than this is encoded before another thread has started.
constexpr std::size_t kBytesPerThread = 64 * 1024;
constexpr std::size_t kTextsAtOnce = 16;

std::size_t threads_for(std::size_t count, std::size_t bytes, int num_threads) {
  if (num_threads < 0) {
    throw accelerate::ArgumentError(
        accelerate::str_cat("num_threads is ", num_threads),
        "pass 0 for one per processor, or a positive number");
  }
  if (num_threads > 0) {
    return std::min<std::size_t>(static_cast<std::size_t>(num_threads), count);
  }
  const std::size_t most =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  return std::min({most, count, 1 + bytes / kBytesPerThread});
}

class Run {
 public:
  Run(const Engine& engine,
      std::size_t count,
      const std::function<void(std::size_t, Workspace&)>& work)
      : engine_(engine), count_(count), work_(work) {}

  void take_part() {
    Engine::Lease workspace(engine_);
    for (;;) {
      const std::size_t begin = next_.fetch_add(kTextsAtOnce);
      if (begin >= count_) {
        return;
      }
      const std::size_t end = std::min(begin + kTextsAtOnce, count_);
      for (std::size_t i = begin; i < end; ++i) {
        if (!do_one(i, *workspace)) {
          return;
        }
      }
    }
  }
  void rethrow() const {
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }

 private:
  bool do_one(std::size_t index, Workspace& workspace) {
    try {
      work_(index, workspace);
      return true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (index < failed_) {
        failed_ = index;
        error_ = std::current_exception();
      }
      return false;
    }
  }

  const Engine& engine_;
  std::size_t count_;
  const std::function<void(std::size_t, Workspace&)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::size_t failed_ = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error_;
};

}  // namespace

void for_each_text(
    const Engine& engine,
    std::size_t count,
    std::size_t bytes,
    int num_threads,
    const std::function<void(std::size_t, Workspace&)>& work) {
  if (count == 0) {
    return;
  }
  Run run(engine, count, work);
  {
    std::vector<std::jthread> helpers;
    const std::size_t threads = threads_for(count, bytes, num_threads);
    for (std::size_t i = 1; i < threads; ++i) {
      helpers.emplace_back([&run] { run.take_part(); });
    }
    run.take_part();
  }
  run.rethrow();
}

}  // namespace transformers::tokenizers
