// SPDX-License-Identifier: Apache-2.0
// Cleans up the workers' processes even if the launcher is killed with SIGKILL.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace accelerate {

/// A small process that cleans up after the launcher has died. It detects the
/// death because the launcher's end of a pipe closes.
///
/// The Linux kernel kills the workers themselves when the launcher dies. The
/// guardian kills the processes that the workers started: the workers' Unix
/// process groups, then every process with this launch's ID in its environment.
/// It also removes the launch's folder.
class Guardian {
 public:
  /// Forks the process; must be called before any thread is started.
  Guardian(const std::string& launch_id, const std::string& folder);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  /// Tells the guardian to exit without cleaning up, and waits until the
  /// guardian has exited.
  ~Guardian();

  void add_group(pid_t group);
  void remove_group(pid_t group);

 private:
  void send(char command, pid_t group);

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

/// Kills every process that has `ACCELERATE_LAUNCH_ID=<launch_id>` in its
/// environment, except the calling process. Returns the number of killed
/// processes.
int kill_marked_processes(const std::string& launch_id);

}  // namespace accelerate
