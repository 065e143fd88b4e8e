// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <cerrno>

#include <unistd.h>

#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

// Returns the error code, or 0.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

bool wants_color(int fd, const Environment& environment) {
  return ::isatty(fd) == 1 && !environment.has("NO_COLOR") &&
         environment.get("TERM").value_or("") != "dumb";
}

}  // namespace

Console::Console(int out, int err, const Environment& environment)
    : out_(out), err_(err), color_(wants_color(err, environment)) {
}

std::string Console::label(
    std::string_view word, std::string_view color) const {
  return color_ ? str_cat("\x1b[1;", color, "m", word, ":\x1b[0m ")
                : str_cat(word, ": ");
}

void Console::print(std::string_view text) {
  const int error = write_all(out_, str_cat(printable_lines(text), "\n"));
  // EPIPE means that the reader, such as `head`, has exited, which is not an
  // error.
  if (error != 0 && error != EPIPE) {
    throw IoError(
        str_cat("cannot write to stdout: ", errno_text(error)),
        error == ENOSPC || error == EDQUOT
            ? "free space on that disk, or redirect the output to another disk"
            : "check where stdout is redirected");
  }
}

void Console::status(std::string_view text) {
  if (!quiet_) {
    write_all(err_, str_cat(printable_lines(text), "\n"));
  }
}

void Console::warning(std::string_view text) {
  if (!quiet_) {
    write_all(
        err_, str_cat(label("warning", "33"), printable_lines(text), "\n"));
  }
}

void Console::hint(std::string_view text) {
  write_all(err_, str_cat(label("hint", "36"), printable_lines(text), "\n"));
}

void Console::write_error(std::string_view text) {
  write_all(err_, printable_lines(text));
}

void Console::write_raw(std::string_view text) {
  write_all(err_, text);
}

std::string Console::report_text(const Report& report) const {
  std::string text;
  if (!report.is_warning) {
    text = str_cat(label("error", "31"), printable_lines(report.title), "\n");
  } else if (!quiet_) {
    text = str_cat(label("warning", "33"), printable_lines(report.title), "\n");
  }
  text +=
      report.body.empty() ? "" : str_cat("\n", printable_lines(report.body));
  text += report.hints.empty() ? "" : "\n";
  for (const std::string& hint : report.hints) {
    text += str_cat(label("hint", "36"), printable_lines(hint), "\n");
  }
  return text;
}

void Console::error(const Error& error) {
  Report report{.title = error.what()};
  if (verbose_) {
    report.title += str_cat(
        "\n  at ", error.where().file_name(), ":", error.where().line());
  }
  if (!error.hint().empty()) {
    report.hints = {error.hint()};
  }
  write_all(err_, report_text(report));
}

}  // namespace accelerate
