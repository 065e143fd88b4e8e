// SPDX-License-Identifier: Apache-2.0
#include "datasets/timestamps.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace transformers::datasets {
namespace {

/// Reads fixed-width parts from the front of a text.
class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  bool empty() const { return rest_.empty(); }

  bool skip(char expected) {
    const bool found = rest_.starts_with(expected);
    rest_.remove_prefix(found ? 1 : 0);
    return found;
  }

  std::optional<int> digits(std::size_t count) {
    const std::string_view text = rest_.substr(0, count);
    int value = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') {
        return std::nullopt;
      }
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(text.size());
    return text.size() == count ? std::optional(value) : std::nullopt;
  }

  bool two_digits_below(int limit) {
    const auto value = digits(2);
    return value && *value < limit;
  }

 private:
  std::string_view rest_;
};

bool skip_date(Parts& parts) {
  const auto year = parts.digits(4);
  const bool first = parts.skip('-');
  const auto month = parts.digits(2);
  const bool second = parts.skip('-');
  const auto day = parts.digits(2);
  return year && first && month && second && day &&
         std::chrono::year_month_day(
             std::chrono::year(*year),
             std::chrono::month(static_cast<unsigned>(*month)),
             std::chrono::day(static_cast<unsigned>(*day)))
             .ok();
}

bool skip_time(Parts& parts) {
  if (!parts.two_digits_below(24)) {
    return false;
  }
  for (int part = 0; part < 2 && parts.skip(':'); ++part) {
    if (!parts.two_digits_below(60)) {
      return false;
    }
  }
  return true;
}

bool is_zone(Parts parts) {
  if (parts.empty() || parts.skip('Z')) {
    return parts.empty();
  }
  if (!parts.skip('+') && !parts.skip('-')) {
    return false;
  }
  if (!parts.two_digits_below(24)) {
    return false;
  }
  if (parts.empty()) {
    return true;
  }
  parts.skip(':');
  return parts.two_digits_below(60) && parts.empty();
}

}  // namespace

bool is_timestamp(std::string_view text) {
  Parts parts(text);
  if (!skip_date(parts)) {
    return false;
  }
  if (parts.empty()) {
    return true;
  }
  return (parts.skip(' ') || parts.skip('T')) && skip_time(parts) &&
         is_zone(parts);
}

}  // namespace transformers::datasets
