// SPDX-License-Identifier: Apache-2.0
// Threads that leave signal handling to the main thread.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace accelerate {

/// Starts a thread with all signals blocked.
template <typename Function>
std::thread start_thread_without_signals(Function&& function) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Function>(function));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace accelerate
