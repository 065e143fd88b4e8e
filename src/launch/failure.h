// SPDX-License-Identifier: Apache-2.0
// The one thing a failed run prints last: who failed first, and of what.
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
  std::string host;
  pid_t pid = 0;
  int exit_code = 0;
  int signal = 0;
  double seconds = 0;  ///< Into the run.
  std::int64_t num_processes = 1;
  std::int64_t others_stopped = 0;
  std::int64_t others_failed = 0;
  std::optional<std::int64_t> step;  ///< The update it was at.
  std::string status;                ///< What the rank last said it was doing.
  std::string exception;             ///< What it reported itself, if it did.
  std::vector<std::string> last_lines;
  std::optional<bool> memory_kill;  ///< Known only for SIGKILL.
  std::string log_path;
  /// The signal somebody sent to the launcher before the rank ended, or 0.
  int interrupt = 0;
  /// Set when it was not a rank but a whole machine: its name and address.
  std::string lost_machine;

  /// Ended by that signal and nothing else: there is nothing to explain.
  bool is_plain_interrupt() const {
    return interrupt != 0 &&
           (signal == interrupt || exit_code == 128 + interrupt ||
            signal == 9);  // Of the second one.
  }
  /// It saved because it was asked to, and wants to be started again.
  bool is_preemption() const {
    return signal == 0 && exit_code == kPreemptedExitCode;
  }
  int code() const { return signal != 0 ? 128 + signal : exit_code; }
};

/// The report, without colour; the first line has no `error:`.
std::string failure_title(const Failure& failure);
std::string failure_body(const Failure& failure);
std::vector<std::string> failure_hints(const Failure& failure);

/// The exception text a worker left in its error file, as torchrun's `record`
/// writes it. Empty when there is none.
struct ReportedError {
  std::string text;
  std::optional<double> timestamp;  ///< Seconds since 1970.
};
ReportedError read_error_file(const std::string& path);

}  // namespace accelerate
