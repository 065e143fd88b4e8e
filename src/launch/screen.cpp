// SPDX-License-Identifier: Apache-2.0
#include "launch/screen.h"

#include <cerrno>

#include <poll.h>
#include <unistd.h>

#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

void Screen::write(std::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another process has made the output non-blocking, so this process waits
      // until the output is writable.
      pollfd entry{fd_, POLLOUT, 0};
      ::poll(&entry, 1, -1);
    } else if (errno == EPIPE || (errno == EIO && is_terminal_)) {
      broken_ = true;  // The reader has exited, or the terminal is gone.
    } else if (errno != EINTR) {
      error_ = errno;
      return;  // A later write may succeed.
    }
  }
}

void Screen::write_raw(std::string_view bytes) {
  if (!bytes.empty()) {
    write(bytes);
    mid_line_ = bytes.back() != '\n';
  }
}

void Screen::finish_line() {
  if (mid_line_) {
    write("\n");
    mid_line_ = false;
  }
}

void Screen::clear_line() {
  if (mid_line_) {
    write(kClearLine);
    mid_line_ = false;
  }
}

void Screen::line(std::string_view text) {
  finish_line();
  if (progress_.empty()) {
    write(str_cat(text, "\n"));
    return;
  }
  // One write, so that the progress bar does not flicker.
  write(str_cat(kClearLine, text, "\n", progress_));
}

void Screen::progress(std::string_view text) {
  if (!is_terminal_) {
    return;
  }
  finish_line();
  progress_ = text;
  write(str_cat(kClearLine, text));
}

void Screen::end_progress() {
  if (!progress_.empty()) {
    progress_.clear();
    write(kClearLine);
  }
}

}  // namespace accelerate
