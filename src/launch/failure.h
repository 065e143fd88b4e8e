// SPDX-License-Identifier: Apache-2.0
// The report at the end of a failed run: which rank failed first, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/checkpoint.h"

namespace accelerate {

struct Failure {
  std::int64_t rank = 0;
  std::string hostname;
  pid_t pid = 0;
  int exit_code = 0;
  int signal = 0;
  double seconds = 0;  ///< Time from the start of the run to the failure.
  std::int64_t num_processes = 1;
  std::int64_t others_stopped = 0;
  std::int64_t others_failed = 0;
  /// Ranks on the same machine that had exited with code 0 before the failure.
  struct EarlyExit {
    std::int64_t rank = 0;
    double seconds = 0;  ///< Time since the start of the run.
  };
  std::vector<EarlyExit> early_exits = {};
  std::optional<std::int64_t> step;  ///< The rank's last optimizer step.
  std::string status;                ///< The last status the rank reported.
  std::string exception;  ///< The exception the rank reported, if any.
  std::vector<std::string> last_lines;
  /// Whether the Linux kernel's OOM killer has killed a process since the
  /// workers started; set only if SIGKILL killed the rank.
  std::optional<bool> oom_kill;
  std::string log_path;
  /// The signal the launcher received before the rank exited, or 0.
  int interrupt = 0;
  /// The name and address of the machine, if a whole machine disconnected.
  std::string disconnected_machine;

  /// Returns whether the rank exited only because of the interrupt, so that
  /// there is nothing else to report.
  bool is_plain_interrupt() const {
    return interrupt != 0 &&
           (signal == interrupt || exit_code == 128 + interrupt ||
            signal == 9);  // A second interrupt sends SIGKILL.
  }
  /// Returns whether the program was preempted and saved a checkpoint, from
  /// which it can resume.
  bool is_preemption() const {
    return signal == 0 && exit_code == kPreemptedExitCode;
  }
  int code() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// `failure_title`, `failure_body` and `failure_hints` return the parts of the
/// failure report, without color. The title does not start with `error:`.
std::string failure_title(const Failure& failure);
std::string failure_body(const Failure& failure);
std::vector<std::string> failure_hints(const Failure& failure);

/// The exception that a worker wrote to its error file, in the format of
/// torchrun's `@record` decorator. `text` is empty if the worker wrote no
/// exception.
struct ReportedError {
  std::string text;
  std::optional<double> timestamp;  ///< Seconds since 1970.
};
ReportedError read_error_file(const std::string& path);

}  // namespace accelerate
