// SPDX-License-Identifier: Apache-2.0
// All output of the `accelerate` command goes through this class.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/error.h"
#include "config/environment.h"

namespace accelerate {

/// A message with details and hints.
struct Report {
  bool is_warning = false;
  std::string title;
  std::string body = {};  ///< Lines that follow the title after a blank line.
  std::vector<std::string> hints = {};
};

/// The output of the `accelerate` command. Data goes to stdout; messages go to
/// stderr. Only labels such as `error:` have a color, and only on a terminal.
///
/// Control characters other than line feeds and tabs are escaped, because texts
/// may contain names of files and machines, and messages from other programs.
class Console {
 public:
  /// `out` and `err` are descriptors. Disables color if `err` is not a
  /// terminal, if `NO_COLOR` is set, or if `TERM` is `dumb`.
  Console(int out, int err, const Environment& environment);

  /// Prints data and a newline to stdout. Throws `IoError` if the data cannot
  /// be written, unless stdout is a pipe whose reader has exited.
  void print(std::string_view text);
  /// `status`, `warning` and `hint` print a message to stderr. With `--quiet`,
  /// only `hint` prints.
  void status(std::string_view text);
  void warning(std::string_view text);
  void hint(std::string_view text);
  /// Returns the text of a report. With `--quiet`, omits the title of a
  /// warning.
  std::string report_text(const Report& report) const;
  /// Prints `error: …` to stderr and, if the error has a hint, a blank line and
  /// `hint: …`, in one write.
  void error(const Error& error);
  /// Prints text to stderr, even with `--quiet`. Does not add a newline.
  void write_error(std::string_view text);
  /// Writes text to stderr without escaping. Used for the control sequences of
  /// a menu.
  void write_raw(std::string_view text);

  void set_quiet(bool quiet) { quiet_ = quiet; }
  bool is_quiet() const { return quiet_; }
  void set_verbose(bool verbose) { verbose_ = verbose; }
  bool has_color() const { return color_; }
  int out() const { return out_; }
  int err() const { return err_; }

 private:
  std::string label(std::string_view word, std::string_view color) const;

  int out_;
  int err_;
  bool color_;
  bool quiet_ = false;
  bool verbose_ = false;
};

}  // namespace accelerate
