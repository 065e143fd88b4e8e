// SPDX-License-Identifier: Apache-2.0
// Runs ranks as real processes.
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
  /// The time limit of the run. When it is reached, all processes are killed.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Additional environment variables. An empty value removes the variable.
  std::map<std::string, std::string> environment = {};
  /// Whether the test process runs the store. If false, rank 0 runs the store,
  /// on a port that was free shortly before the start.
  bool store_in_test = true;
};

/// The result of one process.
struct ProcessResult {
  int rank = 0;
  int exit_code = -1;  ///< -1 if a signal killed it
  int signal = 0;      ///< 0 if no signal killed it
  std::string output;  ///< stdout and stderr together
  double seconds = 0;  ///< from start to end
};

/// Describes how a process ended: "rank 1: exit code 3" or "rank 1: killed by
/// signal 9 (KILL)".
std::string describe(const ProcessResult& result);

/// Processes that are the ranks of one run on this machine. The processes get
/// the environment variables that torchrun sets.
///
/// If `store_in_test` is true, the store runs in the test process, on a socket
/// bound to 127.0.0.1. Every wait ends at the time limit of the run. The
/// processes are killed when this object is destroyed or the test process dies.
///
/// Thread safety: only the thread that created the object may use it.
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
  /// Returns the text that the rank has printed so far.
  const std::string& output(int rank) const;
  c10d::Store& store() const;

  /// Returns once `rank` has printed `text`. Throws `std::runtime_error` with
  /// the output of `rank` if `rank` exits first or if the time limit is
  /// reached.
  void wait_for(int rank, const std::string& text);

  /// Writes a line to the rank's stdin, which lets it continue.
  void send_line(int rank, const std::string& line);
  void send_signal(int rank, int signal) const;

  /// Waits for all processes; returns the results in rank order. Throws if the
  /// time limit is reached first.
  std::vector<ProcessResult> wait();

 private:
  struct Child;

  void start(const std::string& program, const std::vector<std::string>& args);
  void poll_children();
  void read_output(Child& child);
  void reap(Child& child, bool block);
  [[noreturn]] void fail(const std::string& reason) const;

  const ProcessOptions options_;
  const std::chrono::steady_clock::time_point begin_;
  int port_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<std::unique_ptr<Child>> children_;
};

/// Returns the path of the test program `name`. All test programs are in one
/// folder.
std::string test_program_path(const std::string& name);

/// Runs `count` processes and returns the result of each.
std::vector<ProcessResult> run_processes(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options = {});

/// Runs `count` processes. Unless all processes exit with code 0, throws one
/// `std::runtime_error` with the exit status and the output of each failing
/// rank.
void run_processes_or_throw(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options = {});

}  // namespace accelerate
