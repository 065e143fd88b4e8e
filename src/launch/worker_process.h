// SPDX-License-Identifier: Apache-2.0
// One worker: how it is started and what is known about its end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/checkpoint.h"
#include "base/unique_fd.h"

namespace accelerate {

/// What a worker runs, with what around it.
struct WorkerCommand {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;  ///< All of it.
  std::vector<int> cpus;  ///< Empty: those of the launcher.
};

/// How its streams are connected.
struct WorkerStreams {
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool reads_our_input = false;
  /// Stay in the launcher's process group, so that the terminal's keys reach
  /// it directly.
  bool shares_group = false;
};

/// A started worker. The process stays a zombie until `reap`, so that its
/// number, and that of its group, cannot go to somebody else.
struct WorkerProcess {
  std::int64_t rank = 0;
  pid_t pid = -1;
  bool has_own_group = true;
  UniqueFd handle;  ///< A pidfd; readable when the process has ended.
  UniqueFd out;
  UniqueFd err;

  struct End {
    int exit_code = 0;
    int signal = 0;

    bool is_failure() const { return exit_code != 0 || signal != 0; }
    bool is_preemption() const {
      return signal == 0 && exit_code == kPreemptedExitCode;
    }
    /// What a shell would report.
    int code() const { return signal != 0 ? 128 + signal : exit_code; }
  };
  /// How it ended, or nothing while it runs.
  std::optional<End> poll() const;
  /// To its whole group where it has its own.
  void send(int signal) const;
  void reap() const;
};

/// Starts a worker that dies with this process. Call from the main thread: the
/// kernel ties the worker to the thread that started it. Throws `IoError` when
/// the program cannot be run.
WorkerProcess start_worker(
    const WorkerCommand& command, const WorkerStreams& streams);

}  // namespace accelerate
