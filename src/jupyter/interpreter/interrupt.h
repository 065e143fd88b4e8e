// SPDX-License-Identifier: Apache-2.0
// Ends a cell that runs when SIGINT comes, and keeps the interpreter.
#pragma once

#include <csetjmp>

#include <sys/types.h>

namespace accelerate::jupyter {

/// Where the thread that runs cells continues after an interrupt. Destructors
/// of what the cell had begun do not run.
extern sigjmp_buf interrupted_here;

/// Installs the handler. Call it on the thread that runs cells.
void handle_interrupts();

/// While one lives, an interrupt ends the cell: at once when it is in code of
/// the cell itself or sleeps in a call of it to the C library, otherwise as
/// soon as it comes back there. Code of libraries is never left in the middle.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() { end(); }

  static void end();
};

/// While this is not 0, an interrupt goes to that process instead.
void send_interrupts_to(pid_t process);

}  // namespace accelerate::jupyter
