// SPDX-License-Identifier: Apache-2.0
// A child process that runs a tracker written in Python.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include <sys/types.h>

#include "accelerate/json.h"
#include "base/unique_fd.h"
#include "config/environment.h"

namespace accelerate {

/// Runs `<python> -m accelerate_cpp.tracker <name>`; python/accelerate_cpp/
/// tracker.py describes the requests and answers.
///
/// If the child dies, hangs or sends anything other than an answer, it is
/// killed with all processes in its Unix process group, and the current and all
/// later calls throw `IoError` with the same text. If this process dies, the
/// child notices it and exits.
class TrackerProcess {
 public:
  /// Starts the child, and waits until it is ready. Throws `UnsupportedError`
  /// with the reason if Python cannot run the module.
  TrackerProcess(
      const std::filesystem::path& python,
      const std::string& name,
      const Environment& environment,
      std::chrono::milliseconds timeout);
  TrackerProcess(const TrackerProcess&) = delete;
  TrackerProcess& operator=(const TrackerProcess&) = delete;
  /// Kills the child if it is still running.
  ~TrackerProcess();

  /// Sends a request and returns the answer.
  Json call(const Json& request, std::chrono::milliseconds timeout);
  /// Waits until the child has ended; kills it after `timeout`.
  void wait(std::chrono::milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;

  void spawn(
      const std::filesystem::path& python,
      const std::string& name,
      const Environment& environment);
  /// Waits for the first line. What the child prints before that line is an
  /// error message, or a warning that is passed on.
  void wait_until_ready(Clock::time_point deadline);
  [[noreturn]] void refuse(const std::string& printed);
  std::string read_line(Clock::time_point deadline);
  bool has_ended();
  [[noreturn]] void fail(const std::string& reason);
  std::string kill_and_describe();

  std::string command_;
  pid_t pid_ = 0;  // 0 after the child was reaped.
  UniqueFd socket_;
  std::string received_;
  std::string failure_;
};

}  // namespace accelerate
