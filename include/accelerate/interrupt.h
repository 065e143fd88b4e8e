// SPDX-License-Identifier: Apache-2.0
// Ends waits for other processes from outside: for programs whose Ctrl-C is an
// exception, such as an interpreter.
//
//     extern "C" void on_interrupt(int) { accelerate::interrupt_waits(); }
#pragma once

#include "accelerate/error.h"
#include "accelerate/export.h"

namespace accelerate {

/// A wait for other ranks was ended from outside; the group is unusable.
class ACCELERATE_API InterruptedError : public DistributedError {
 public:
  using DistributedError::DistributedError;
  ~InterruptedError() override;
  int exit_code() const noexcept override { return 130; }
};

/// Makes every wait of this process for others end within a tenth of a second,
/// now and until `resume_waits`, with an `InterruptedError`. A group that was
/// interrupted is unusable afterwards. Safe in a signal handler.
ACCELERATE_API void interrupt_waits() noexcept;
/// Lets later waits wait again.
ACCELERATE_API void resume_waits() noexcept;
/// Whether waits are interrupted now.
ACCELERATE_API bool waits_are_interrupted() noexcept;

}  // namespace accelerate
