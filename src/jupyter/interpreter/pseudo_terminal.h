// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal for the launcher, which draws progress bars only on a
// terminal. The launcher's output is forwarded to stderr of this process.
#pragma once

#include <sys/types.h>

namespace accelerate::jupyter {

class PseudoTerminal {
 public:
  /// Opens a pseudo-terminal. If that fails, `child_fd` returns stderr.
  PseudoTerminal();
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal();

  /// Returns the descriptor to use as stderr of the child process.
  int child_fd() const;
  /// Forwards the output of `process` and its children until `process` exits.
  /// Returns the status of `process` from `waitpid`.
  int forward_until_exit(pid_t process);

 private:
  int parent_fd_ = -1;
  int child_fd_ = -1;
};

}  // namespace accelerate::jupyter
