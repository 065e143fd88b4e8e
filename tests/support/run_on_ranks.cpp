// SPDX-License-Identifier: Apache-2.0
#include "support/run_on_ranks.h"

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace accelerate {
namespace {

// LibTorch's flight recorder is a map without a lock, shared by the whole
// process; it crashes with groups on several threads (pytorch#179313).
const int kNoFlightRecorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

}  // namespace

GroupOptions quick(Backend backend) {
  GroupOptions options;
  options.backend = backend;
  options.timeout = std::chrono::seconds(20);
  return options;
}

void run_on_ranks(
    int size,
    const GroupOptions& options,
    const std::function<void(Group&)>& body) {
  static_cast<void>(kNoFlightRecorder);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::mutex mutex;
  std::string failures;
  const auto add_failure = [&](int rank, const std::string& message) {
    const std::lock_guard lock(mutex);
    failures += "rank " + std::to_string(rank) + ": " + message + "\n";
  };
  const auto run = [&](int rank) {
    try {
      Group group(store, rank, size, options);
      body(group);
    } catch (const std::exception& error) {
      add_failure(rank, error.what());
    } catch (...) {
      add_failure(
          rank, "an exception that does not derive from std::exception");
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back(run, rank);
    }
  }
  if (!failures.empty()) {
    throw std::runtime_error(failures);
  }
}

}  // namespace accelerate
