// SPDX-License-Identifier: Apache-2.0
// The progress bar for a download, one line on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace transformers::hub {

/// A progress bar. It is drawn at most ten times a second, and the destructor
/// draws the final state. If `shown` is false, nothing is drawn.
class Progress {
 public:
  Progress(bool shown, std::string file, std::int64_t done, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void advance(std::int64_t bytes);
  /// Resets the bar, for a download that starts again from scratch.
  void restart();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool last);

  bool shown_;
  std::string file_;
  std::int64_t done_;
  std::int64_t total_;
  std::int64_t new_bytes_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_;
};

/// Returns the progress bar's line without control characters, for tests.
std::string progress_line(
    const std::string& file,
    std::int64_t done,
    std::int64_t total,
    double bytes_per_second);

/// Prints a warning to stderr.
void warn(const std::string& text);

}  // namespace transformers::hub
