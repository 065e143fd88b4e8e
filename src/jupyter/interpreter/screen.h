// SPDX-License-Identifier: Apache-2.0
// A terminal that nobody sees: the launcher draws progress bars on a terminal
// only. What is written to it goes to this process's standard error.
#pragma once

#include <sys/types.h>

namespace accelerate::jupyter {

class Screen {
 public:
  /// Where there is no terminal to be had, `end` is the standard error.
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  /// For the process that is started: its standard error.
  int end() const;
  /// Forwards what `process` and its children write until it has ended;
  /// returns its status, as `waitpid` gives it.
  int watch(pid_t process);

 private:
  int ours_ = -1;
  int theirs_ = -1;
};

}  // namespace accelerate::jupyter
