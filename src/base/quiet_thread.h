// SPDX-License-Identifier: Apache-2.0
// Threads that leave signals to the main thread.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace accelerate {

/// Starts a thread in which every signal is blocked.
template <typename Function>
std::thread start_quiet_thread(Function&& function) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Function>(function));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace accelerate
