// SPDX-License-Identifier: Apache-2.0
// One line on stderr that says how far a download is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace transformers::hub {

/// Draws at most ten times a second, and the last state when it goes. Does
/// nothing when it is not shown.
class Progress {
 public:
  Progress(bool shown, std::string file, std::int64_t done, std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void advance(std::int64_t bytes);
  /// The download begins anew.
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

/// The line without the control characters around it, for tests.
std::string progress_line(
    const std::string& file,
    std::int64_t done,
    std::int64_t total,
    double bytes_per_second);

/// A warning on stderr.
void warn(const std::string& text);

}  // namespace transformers::hub
