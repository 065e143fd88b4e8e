// SPDX-License-Identifier: Apache-2.0
#include "hub/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/message.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers::hub {

using accelerate::format_bytes;
using accelerate::str_cat;

std::string progress_line(
    const std::string& file,
    std::int64_t done,
    std::int64_t total,
    double bytes_per_second) {
  constexpr std::int64_t kCells = 20;
  const std::int64_t size = std::max<std::int64_t>(total, 1);
  const std::int64_t filled = std::clamp<std::int64_t>(
      done / std::max<std::int64_t>(size / kCells, 1), 0, kCells);
  const std::int64_t percent = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(
          100.0 * static_cast<double>(done) / static_cast<double>(size)),
      0,
      100);
  return str_cat(
      file,
      ": ",
      percent < 10    ? "  "
      : percent < 100 ? " "
                      : "",
      percent,
      "%|",
      std::string(static_cast<std::size_t>(filled), '#'),
      std::string(static_cast<std::size_t>(kCells - filled), ' '),
      "| ",
      format_bytes(static_cast<double>(done)),
      " of ",
      format_bytes(static_cast<double>(total)),
      ", ",
      format_bytes(bytes_per_second),
      "/s");
}

void warn(const std::string& text) {
  accelerate::print_warning(accelerate::printable_lines(text));
}

Progress::Progress(
    bool shown, std::string file, std::int64_t done, std::int64_t total)
    : shown_(shown),
      file_(accelerate::printable(file)),
      done_(done),
      total_(total) {
  draw(/*last=*/false);
}

Progress::~Progress() {
  draw(/*last=*/true);
}

void Progress::advance(std::int64_t bytes) {
  done_ += bytes;
  new_bytes_ += bytes;
  if (shown_ && Clock::now() >= next_) {
    draw(/*last=*/false);
  }
}

void Progress::restart() {
  done_ = 0;
}

void Progress::draw(bool last) {
  if (!shown_) {
    return;
  }
  next_ = Clock::now() + std::chrono::milliseconds(100);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin_).count();
  const std::string line = progress_line(
      file_,
      done_,
      total_,
      static_cast<double>(new_bytes_) / std::max(seconds, 1e-3));
  // The escape sequence clears the rest of a longer previous line.
  std::fputs(str_cat("\r", line, "\x1b[K", last ? "\n" : "").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace transformers::hub
