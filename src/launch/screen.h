// SPDX-License-Identifier: Apache-2.0
// Where lines of several ranks meet.
#pragma once

#include <string>
#include <string_view>

namespace accelerate {

/// One output of the launcher: stdout, stderr, or both when they are the same
/// file. Knows whether the cursor is in the middle of a line, and keeps one
/// unfinished line (a progress bar) at the bottom of a terminal.
///
/// Not thread-safe.
class Screen {
 public:
  Screen(int fd, bool is_terminal) : fd_(fd), is_terminal_(is_terminal) {}

  /// Bytes as they are, from the only one who prints.
  void pass(std::string_view bytes);
  /// A whole line; its end is added. Never lands inside another line.
  void line(std::string_view text);
  /// Shows `text` as the unfinished line at the bottom, on a terminal only.
  void progress(std::string_view text);
  /// The unfinished line is over; it stays where it is.
  void end_progress();
  /// Finishes a line that was left open, before somebody else prints.
  void finish_line();

  /// Takes back a line that was left open; a terminal only.
  void clear_line();

  bool is_terminal() const { return is_terminal_; }
  /// Nobody reads any more.
  bool is_broken() const { return broken_; }

 private:
  void write(std::string_view bytes);

  int fd_;
  bool is_terminal_;
  bool mid_line_ = false;
  bool broken_ = false;
  std::string progress_;
};

}  // namespace accelerate
