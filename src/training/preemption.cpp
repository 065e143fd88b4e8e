// SPDX-License-Identifier: Apache-2.0
#include "training/preemption.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <mutex>

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include "base/text.h"
#include "config/environment.h"

namespace accelerate {
namespace {

std::atomic<bool> requested = false;
// Time in nanoseconds; 0 before the first SIGTERM.
std::atomic<std::int64_t> first_sigterm = 0;
std::atomic<std::int64_t> grace_period = 0;  // In nanoseconds.
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t grace_period_of_launcher() {
  constexpr double kDefaultSeconds = 30;
  const auto text =
      Environment::of_this_process().get("ACCELERATE_GRACE_PERIOD");
  const double seconds =
      text ? parse_double(*text).value_or(kDefaultSeconds) : kDefaultSeconds;
  return static_cast<std::int64_t>(seconds * 1e9);
}

std::int64_t now_in_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Slurm sends SIGTERM to every process of a step, and the launcher forwards its
// own SIGTERM, so several signals may belong to one request.
void handle_signal(int signal) {
  requested.store(true, std::memory_order_relaxed);
  if (signal != SIGTERM) {
    return;
  }
  const std::int64_t now = now_in_nanoseconds();
  std::int64_t first = 0;
  if (!first_sigterm.compare_exchange_strong(first, now) &&
      now - first >= grace_period.load(std::memory_order_relaxed)) {
    std::signal(SIGTERM, SIG_DFL);
    (void)std::raise(SIGTERM);
  }
}

}  // namespace

void install_preemption_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    grace_period = grace_period_of_launcher();
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
