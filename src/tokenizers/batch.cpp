// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/batch.h"

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

// Encoding less text than this takes less time than starting a thread.
constexpr std::size_t kBytesPerThread = 64 * 1024;
constexpr std::size_t kTextsPerClaim = 16;

std::size_t threads_for(std::size_t count, std::size_t bytes, int num_threads) {
  if (num_threads < 0) {
    throw accelerate::ArgumentError(
        accelerate::str_cat("num_threads is ", num_threads),
        "pass 0 for one thread per CPU core, or a positive number");
  }
  if (num_threads > 0) {
    return std::min<std::size_t>(static_cast<std::size_t>(num_threads), count);
  }
  const std::size_t max_threads =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  return std::min({max_threads, count, 1 + bytes / kBytesPerThread});
}

class BatchRun {
 public:
  BatchRun(
      const Engine& engine,
      std::size_t count,
      const std::function<void(std::size_t, Workspace&)>& work)
      : engine_(engine), count_(count), work_(work) {}

  void process_texts() {
    Engine::Lease workspace(engine_);
    for (;;) {
      const std::size_t begin = next_.fetch_add(kTextsPerClaim);
      if (begin >= count_) {
        return;
      }
      const std::size_t end = std::min(begin + kTextsPerClaim, count_);
      for (std::size_t i = begin; i < end; ++i) {
        if (!process_text(i, *workspace)) {
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
  bool process_text(std::size_t index, Workspace& workspace) {
    try {
      work_(index, workspace);
      return true;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (index < first_failed_) {
        first_failed_ = index;
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
  std::size_t first_failed_ = std::numeric_limits<std::size_t>::max();
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
  BatchRun run(engine, count, work);
  {
    std::vector<std::jthread> workers;
    const std::size_t threads = threads_for(count, bytes, num_threads);
    for (std::size_t i = 1; i < threads; ++i) {
      workers.emplace_back([&run] { run.process_texts(); });
    }
    run.process_texts();
  }
  run.rethrow();
}

}  // namespace transformers::tokenizers
