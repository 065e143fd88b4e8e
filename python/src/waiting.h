// SPDX-License-Identifier: Apache-2.0
// A call that may wait for other processes: other Python threads run
// meanwhile, and Ctrl-C ends it.
#pragma once

#include "torch.h"

namespace accelerate::python {

/// While one lives, SIGINT also ends our waits for other processes. Python's
/// own handler still runs, so that `KeyboardInterrupt` follows as soon as the
/// interpreter has the word again.
class InterruptibleScope {
 public:
  InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;
  ~InterruptibleScope();

 private:
  bool installed_ = false;
};

/// For `py::call_guard`.
class Waiting {
 private:
  py::gil_scoped_release release_;
  InterruptibleScope interruptible_;
};

}  // namespace accelerate::python
