// SPDX-License-Identifier: Apache-2.0
// Runs a program with a timeout and captures its output.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace accelerate::test {

struct CommandResult {
  std::string out;
  std::string err;
  int exit_code = -1;  ///< 128 + n if signal n killed the program.
  double seconds = 0;
  bool timed_out = false;
};

struct CommandOptions {
  std::vector<std::string> argv;
  /// The complete environment of the program.
  std::map<std::string, std::string> environment;
  std::string folder;
  std::string input;
  std::chrono::milliseconds timeout{30000};
  /// `run_command` calls `watch` repeatedly while the program runs, until
  /// `watch` returns true. `err` is the program's stderr output so far.
  std::function<bool(pid_t pid, const std::string& err)> watch;
};

CommandResult run_command(const CommandOptions& options);

}  // namespace accelerate::test
