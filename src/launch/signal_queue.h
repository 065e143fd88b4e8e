// SPDX-License-Identifier: Apache-2.0
// Lets the launcher read its signals from a file descriptor (`signalfd`).
#pragma once

#include <csignal>
#include <optional>

#include "base/unique_fd.h"

namespace accelerate {

/// While an object of this class exists, the signals that the launcher handles
/// are blocked, and `take` returns them. Create the object before starting any
/// thread, because threads inherit the signal mask.
class SignalQueue {
 public:
  SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();

  struct ReceivedSignal {
    int signal = 0;
    bool from_terminal = false;
  };
  /// Returns a file descriptor that is readable when a signal is pending.
  int fd() const { return fd_.get(); }
  std::optional<ReceivedSignal> take();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace accelerate
