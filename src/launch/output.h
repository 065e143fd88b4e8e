// SPDX-License-Identifier: Apache-2.0
// What the workers print, brought together without tearing a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace accelerate {

/// Lines up to this long stay whole when several ranks print: they are held
/// until their end is there. Of a longer one the pieces are lines of their own.
inline constexpr std::size_t kMaxOutputLine = std::size_t{8} << 20;

struct OutputOptions {
  int out = 1;
  int err = 2;
  /// How many ranks may print.
  std::int64_t num_ranks = 1;
  /// Keeps each rank's streams under this folder; empty: nowhere.
  std::filesystem::path log_folder;
  bool log_out = true;
  bool log_err = true;
};

/// The last lines one rank printed.
struct RankTail {
  std::vector<std::string> err;
  std::vector<std::string> out;
};

/// Reads the workers' streams on its own thread, so that a terminal that stands
/// still does not keep the launcher from noticing a dead worker.
///
/// While one rank alone prints, its bytes pass unchanged. From the moment a
/// second one does, every line carries `[rank]`.
class Output {
 public:
  explicit Output(OutputOptions options);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  void add(std::int64_t rank, UniqueFd out, UniqueFd err);
  /// The launcher's own words to stderr, between lines.
  void announce(const std::string& text);
  /// Returns when everything that was in the pipes at the call has been read.
  void flush();
  /// All workers have ended: passes on what they left in their pipes and
  /// forgets them. Processes they left behind are not waited for.
  void drain();
  RankTail tail(std::int64_t rank) const;
  /// The window has a new size.
  void resize();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
