// SPDX-License-Identifier: Apache-2.0
// The launcher's signals as something to wait for.
#pragma once

#include <csignal>
#include <optional>

#include "base/unique_fd.h"

namespace accelerate {

/// Takes over the signals a launcher passes on, for as long as it lives. Make
/// it before the first thread: threads inherit what is blocked.
class SignalQueue {
 public:
  SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue();

  struct Arrival {
    int signal = 0;
    bool from_terminal = false;
  };
  /// Readable when a signal has arrived.
  int fd() const { return fd_.get(); }
  std::optional<Arrival> take();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace accelerate
