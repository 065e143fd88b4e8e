// SPDX-License-Identifier: Apache-2.0
#include "training/preemption.h"

#include <atomic>
#include <csignal>
#include <mutex>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

namespace accelerate {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void handle_signal(int signal) {
  requested.store(true, std::memory_order_relaxed);
  if (signal == SIGTERM) {
    // A second SIGTERM kills the process immediately.
    std::signal(SIGTERM, SIG_DFL);
  }
}

}  // namespace

void install_preemption_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_handler = handle_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGTERM, &action, nullptr);
    ::sigaction(SIGUSR1, &action, nullptr);
  });
}

bool preemption_requested() {
  return requested.load(std::memory_order_relaxed);
}

bool preemption_requested(const Group& group) {
  install_preemption_handlers();
  const auto local = at::full({1}, preemption_requested() ? 1 : 0, at::kLong);
  return group.reduce({local}, Reduction::max)[0].item<std::int64_t>() > 0;
}

}  // namespace accelerate
