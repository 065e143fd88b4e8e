// SPDX-License-Identifier: Apache-2.0
// Merges the output of the workers line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace accelerate {

/// When several ranks print, lines up to this length in bytes are buffered and
/// printed whole. A longer line is split into several lines.
inline constexpr std::size_t kMaxOutputLine = std::size_t{8} << 20;

struct OutputOptions {
  int out = 1;
  int err = 2;
  /// The number of ranks that may print.
  std::int64_t num_ranks = 1;
  /// Each rank's streams are also written to files in this folder. If empty, no
  /// files are written.
  std::filesystem::path log_folder;
  bool log_out = true;
  bool log_err = true;
};

/// The last lines that one rank printed.
struct RankTail {
  std::vector<std::string> err;
  std::vector<std::string> out;
};

/// Reads the workers' streams on its own thread, so that the launcher detects
/// the death of a worker even while a write to a terminal blocks.
///
/// While only one rank prints, its bytes are copied unchanged. As soon as
/// another rank prints, every line starts with `[rank]`.
class Output {
 public:
  explicit Output(OutputOptions options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  void add(std::int64_t rank, UniqueFd out, UniqueFd err);
  /// Prints a message from the launcher to stderr, between the workers' lines.
  void announce(const std::string& text);
  /// Prints a report that may contain colors; untrusted parts must be escaped.
  /// The report is written in one call, because a batch system may kill this
  /// process between two writes.
  void announce_report(const std::string& text);
  /// Waits until the output that is in the pipes at the time of the call has
  /// been read, but at most 0.5 s.
  void flush();
  /// Prints the rest of the workers' output and closes their streams. Must be
  /// called when all workers have exited. Does not wait for processes that the
  /// workers left behind.
  void drain();
  RankTail tail(std::int64_t rank) const;
  /// Appends `text` to the log file of a rank's stderr, if there is one. Must
  /// be called after `drain`.
  void append_to_log(std::int64_t rank, const std::string& text) const;
  /// Returns why output could not be written, for example to a full disk; empty
  /// if all output was written, or if the reader of a pipe has exited.
  std::string lost() const;
  /// Passes a new window size on to the workers' terminals.
  void resize();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
