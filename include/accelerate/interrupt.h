// SPDX-License-Identifier: Apache-2.0
// Interrupts a process that is waiting for other processes. For programs that
// turn Ctrl-C into an exception, such as an interpreter.
//
//     extern "C" void on_interrupt(int) { accelerate::interrupt_waits(); }
#pragma once

#include "accelerate/error.h"
#include "accelerate/export.h"

namespace accelerate {

/// A call that waited for other ranks was interrupted; the process group is
/// unusable afterwards.
class ACCELERATE_API InterruptedError : public DistributedError {
 public:
  using DistributedError::DistributedError;
  ~InterruptedError() override;
  int exit_code() const noexcept override { return 130; }
};

/// Until `resume_waits` is called, every call in this process that waits for
/// other ranks throws `InterruptedError` within a tenth of a second. An
/// interrupted process group is unusable afterwards. Safe to call in a signal
/// handler.
ACCELERATE_API void interrupt_waits() noexcept;
/// Ends the effect of `interrupt_waits`: later calls wait normally again.
ACCELERATE_API void resume_waits() noexcept;
/// Returns whether `interrupt_waits` is in effect.
ACCELERATE_API bool waits_are_interrupted() noexcept;

}  // namespace accelerate
