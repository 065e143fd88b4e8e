// SPDX-License-Identifier: Apache-2.0
#include "reporting/progress_line.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace accelerate {
namespace {

constexpr int kBarWidth = 10;

std::string padded(std::int64_t value, int width) {
  std::ostringstream out;
  out << std::setw(width) << std::setfill('0') << value;
  return out.str();
}

// Returns `03:25`, or `1:03:25` from one hour on.
std::string clock_text(double seconds) {
  const auto total = static_cast<std::int64_t>(seconds);
  const std::string tail =
      padded(total / 60 % 60, 2) + ":" + padded(total % 60, 2);
  return total < 3600 ? tail : std::to_string(total / 3600) + ":" + tail;
}

std::string two_digits(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << value;
  return out.str();
}

// Below one item per second, shows seconds per item.
std::string rate_text(double rate, const std::string& unit) {
  if (!(rate > 0) || !std::isfinite(rate)) {
    return "?" + unit + "/s";
  }
  return rate >= 1 ? two_digits(rate) + unit + "/s"
                   : two_digits(1 / rate) + "s/" + unit;
}

std::string bar_text(double share) {
  const int filled =
      std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) {
    bar += i < filled ? "█" : " ";
  }
  return bar;
}

std::string percent_text(double share) {
  std::ostringstream out;
  out << std::setw(3) << static_cast<int>(share * 100) << "%";
  return out.str();
}

}  // namespace

std::string progress_line(const Progress& progress) {
  const double seconds = progress.elapsed.count();
  const double rate = static_cast<double>(progress.n) / seconds;
  const std::string speed = rate_text(rate, progress.unit);
  const std::string tail =
      speed + (progress.postfix.empty() ? "" : ", " + progress.postfix) + "]";
  std::string head =
      progress.description.empty() ? "" : progress.description + ": ";
  // If the count exceeds the total, the total was wrong and is not shown.
  if (!progress.total || *progress.total <= 0 || progress.n > *progress.total) {
    return head + std::to_string(progress.n) + progress.unit + " [" +
           clock_text(seconds) + ", " + tail;
  }
  const auto total = static_cast<double>(*progress.total);
  const double share = static_cast<double>(progress.n) / total;
  const double left = (total - static_cast<double>(progress.n)) / rate;
  const std::string remaining = std::isfinite(left) ? clock_text(left) : "?";
  return head + percent_text(share) + "|" + bar_text(share) + "| " +
         std::to_string(progress.n) + "/" + std::to_string(*progress.total) +
         " [" + clock_text(seconds) + "<" + remaining + ", " + tail;
}

}  // namespace accelerate
