// SPDX-License-Identifier: Apache-2.0
// Stops the running cell on SIGINT without ending the interpreter.
#pragma once

#include <csetjmp>

#include <sys/types.h>

namespace accelerate::jupyter {

/// The point where the thread that runs cells continues after an interrupt. The
/// jump to this point skips the destructors of the cell's local objects.
extern sigjmp_buf interrupt_target;

/// Installs the SIGINT handler. Must be called on the thread that runs cells.
void handle_interrupts();

/// While an object of this class exists, SIGINT stops the running cell. The
/// cell stops immediately if its thread runs the cell's own code or blocks in a
/// C library call made directly by the cell. Otherwise, the cell stops when its
/// thread returns to the cell's own code.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() { end(); }

  static void end();
};

/// Makes SIGINT interrupt `process` instead of the cell, until the next call.
/// If `process` is 0, SIGINT stops the cell again.
void send_interrupts_to(pid_t process);

}  // namespace accelerate::jupyter
