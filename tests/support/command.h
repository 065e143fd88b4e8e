// SPDX-License-Identifier: Apache-2.0
// Runs a program and collects what it prints, within a time limit.
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
  int exit_code = -1;  ///< 128 + n after signal n.
  double seconds = 0;
  bool timed_out = false;
};

struct CommandOptions {
  std::vector<std::string> words;
  /// The whole environment.
  std::map<std::string, std::string> environment;
  std::string folder;
  std::string input;
  std::chrono::milliseconds timeout{30000};
  /// Called again and again while the program runs, with what it printed to
  /// stderr so far; returns true when it need not be called any more.
  std::function<bool(pid_t pid, const std::string& err)> watch;
};

CommandResult run_command(const CommandOptions& options);

}  // namespace accelerate::test
