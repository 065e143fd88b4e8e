// SPDX-License-Identifier: Apache-2.0
// The only part of the command line that writes to a stream.
#pragma once

#include <string>
#include <string_view>

#include "accelerate/error.h"
#include "config/environment.h"

namespace accelerate {

/// stdout is data, stderr is for people. Colour only on a terminal and only as
/// decoration.
class Console {
 public:
  /// Looks at the terminal, `NO_COLOR` and `TERM`.
  Console(int out, int err, const Environment& environment);

  /// Data, as one would pipe it; a line end is added.
  void print(std::string_view text);
  /// For people; nothing with `--quiet`.
  void status(std::string_view text);
  void warning(std::string_view text);
  void hint(std::string_view text);
  /// `error: …`, then `hint: …` after a blank line.
  void error(const Error& error);
  /// Anything to stderr, as it is.
  void write_error(std::string_view text);

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
