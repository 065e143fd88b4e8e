// SPDX-License-Identifier: Apache-2.0
// Leaves no worker behind, even when the launcher is killed with SIGKILL.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace accelerate {

/// A small process that waits for the launcher's end of a pipe to close.
///
/// The kernel already kills the workers themselves with the launcher. The
/// guardian is for what they started: it kills their process groups, then every
/// process that carries this launch's mark in its environment, and removes the
/// launch's folder.
class Guardian {
 public:
  /// Forks; call before any thread is started.
  Guardian(const std::string& launch_id, const std::string& folder);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  /// Tells it that this end is on purpose, and waits for it.
  ~Guardian();

  void add_group(pid_t group);
  void remove_group(pid_t group);

 private:
  void tell(char what, pid_t group);

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

/// Kills every process with `ACCELERATE_LAUNCH_ID=<launch_id>` in its
/// environment, but this one. Returns how many there were.
int kill_marked_processes(const std::string& launch_id);

}  // namespace accelerate
