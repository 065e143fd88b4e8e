// SPDX-License-Identifier: Apache-2.0
// A guard for calls that may wait for other processes: other Python threads can
// run during the call, and Ctrl-C interrupts it.
#pragma once

#include "torch.h"

namespace accelerate::python {

/// While an object of this class exists in the main thread, SIGINT also
/// interrupts calls that wait for other processes. Python's handler still runs,
/// so `KeyboardInterrupt` is raised as soon as the call returns to the
/// interpreter.
class InterruptibleScope {
 public:
  InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;
  ~InterruptibleScope();

 private:
  bool installed_ = false;
};

/// Releases the GIL and lets Ctrl-C interrupt the call. Use this class with
/// `py::call_guard`.
class BlockingCall {
 private:
  py::gil_scoped_release release_;
  InterruptibleScope interruptible_;
};

}  // namespace accelerate::python
