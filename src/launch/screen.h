// SPDX-License-Identifier: Apache-2.0
// Writes lines from several ranks to one output.
#pragma once

#include <string>
#include <string_view>

namespace accelerate {

/// One output of the launcher: stdout, stderr, or both when they are the same
/// file. Tracks whether the cursor is in the middle of a line, and keeps one
/// unfinished line (a progress bar) at the bottom of a terminal.
///
/// Not thread-safe.
class Screen {
 public:
  Screen(int fd, bool is_terminal) : fd_(fd), is_terminal_(is_terminal) {}

  /// Writes bytes unchanged. Used while only one rank prints.
  void write_raw(std::string_view bytes);
  /// Writes `text` on a line of its own, with a newline.
  void line(std::string_view text);
  /// Shows `text` as the unfinished line at the bottom of a terminal. Does
  /// nothing for other outputs.
  void progress(std::string_view text);
  /// Clears the line that `progress` shows at the bottom.
  void end_progress();
  /// Ends an unfinished line with a newline, before other output.
  void finish_line();

  /// Clears an unfinished line. Must be called only for a terminal.
  void clear_line();

  bool is_terminal() const { return is_terminal_; }
  /// Returns whether the reader of the output has exited.
  bool is_broken() const { return broken_; }
  /// Returns the `errno` of the last write that lost bytes, for example because
  /// the disk was full; 0 if no bytes were lost.
  int error() const { return error_; }

 private:
  void write(std::string_view bytes);

  int fd_;
  bool is_terminal_;
  bool mid_line_ = false;
  bool broken_ = false;
  int error_ = 0;
  std::string progress_;
};

}  // namespace accelerate
