// SPDX-License-Identifier: Apache-2.0
// Ranks as real processes.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include <c10/util/intrusive_ptr.h>

#include "accelerate/fwd.h"

namespace accelerate {

struct ProcessOptions {
  /// The whole run may take this long; then everything is killed.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Variables besides the launcher's. An empty value removes one.
  std::map<std::string, std::string> environment = {};
  /// Off: rank 0 hosts the store, on a port that was free a moment ago.
  bool host_store = true;
};

/// How one process ended.
struct ProcessResult {
  int rank = 0;
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;      ///< 0 when it exited
  std::string output;  ///< stdout and stderr together
  double seconds = 0;  ///< from start to end
};

/// "rank 1: exit code 3" or "rank 1: killed by signal 9 (KILL)".
std::string describe(const ProcessResult& result);

/// Processes with torchrun's variables, as ranks of one run on this host.
///
/// The store is hosted here, on a socket bound to 127.0.0.1. Every wait ends
/// with the time limit of the run at the latest. No process outlives this
/// object, nor the process that holds it.
///
/// Thread safety: one thread at a time, the one that made the object.
class Processes {
 public:
  Processes(
      int count,
      const std::string& program,
      const std::vector<std::string>& args,
      ProcessOptions options = {});
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();

  pid_t pid(int rank) const;
  /// What the rank has printed so far.
  const std::string& output(int rank) const;
  c10d::Store& store() const;

  /// Returns once `rank` has printed `text`. Throws `std::runtime_error` with
  /// its output when it ends without it, or when the time is over.
  void wait_for(int rank, const std::string& text);

  /// Writes a line to the rank's stdin: the way to let it go on.
  void tell(int rank, const std::string& line);
  void send_signal(int rank, int signal) const;

  /// Returns when all have ended, in rank order. Throws when the time is over.
  std::vector<ProcessResult> wait();

 private:
  struct Child;

  void start(const std::string& program, const std::vector<std::string>& args);
  void pump();
  void read_output(Child& child);
  void reap(Child& child, bool block);
  [[noreturn]] void fail(const std::string& why) const;

  const ProcessOptions options_;
  const std::chrono::steady_clock::time_point begin_;
  int port_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::unique_ptr<Child>> children_;
};

/// Path of another program of the tests: they lie in one folder.
std::string beside_this_program(const std::string& name);

/// Runs `count` processes to their end and returns how each ended.
std::vector<ProcessResult> run_processes(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options = {});

/// The same, but throws one `std::runtime_error` with how each failing rank
/// ended and what it printed, unless all exit with 0.
void run_processes_or_throw(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options = {});

}  // namespace accelerate
