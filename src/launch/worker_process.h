// SPDX-License-Identifier: Apache-2.0
// Starts a worker process and reads its exit status.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/checkpoint.h"
#include "base/unique_fd.h"

namespace accelerate {

/// The program and environment of a worker.
struct WorkerCommand {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  ///< The whole environment.
  /// The CPUs on which the worker runs. If empty, the launcher's CPUs.
  std::vector<int> cpus;
  std::string error_file;     ///< The worker writes its exception to this file.
  std::string progress_file;  ///< The worker writes its step to this file.
  /// A glob pattern for the worker's log files, shown in messages.
  std::string log_pattern;
};

/// How the worker's streams are connected.
struct WorkerStreams {
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool reads_our_input = false;  ///< Whether it inherits the launcher's stdin.
  /// Whether the worker stays in the launcher's Unix process group, so that
  /// Ctrl-C and similar keys reach the worker directly.
  bool shares_group = false;
};

/// A started worker. When it exits, the process stays a zombie until `reap` is
/// called, so that the system cannot reuse its PID and process group ID.
struct WorkerProcess {
  std::int64_t rank = 0;
  pid_t pid = -1;
  bool has_own_group = true;
  UniqueFd handle;  ///< A pidfd; readable when the process has exited.
  UniqueFd out;
  UniqueFd err;

  struct ExitStatus {
    int exit_code = 0;
    int signal = 0;

    bool is_failure() const { return exit_code != 0 || signal != 0; }
    bool is_preemption() const {
      return signal == 0 && exit_code == kPreemptedExitCode;
    }
    /// Returns the exit code that a shell would report.
    int code() const { return signal != 0 ? 128 + signal : exit_code; }
  };
  /// Returns the exit status, or nothing while the worker is running.
  std::optional<ExitStatus> poll() const;
  /// Returns whether a signal or a debugger has stopped the process.
  bool is_stopped() const;
  /// Sends a signal to the worker's process group if the worker has its own
  /// group, else only to the worker process.
  void send(int signal) const;
  void reap() const;
};

/// Starts a worker that the Linux kernel kills when this process dies. Must be
/// called from the main thread, because the Linux kernel also kills the worker
/// when the thread that started the worker exits. Throws `IoError` if the
/// program cannot be run.
WorkerProcess start_worker(
    const WorkerCommand& command, const WorkerStreams& streams);

}  // namespace accelerate
