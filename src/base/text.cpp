// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "base/str_cat.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

// U+0080 to U+009F are the C1 control characters.
bool is_control(char32_t character) {
  return (character < 0x20 && character != '\t') ||
         (character >= 0x7f && character < 0xa0);
}

std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    result += "\\x";
    result += kDigits[byte >> 4];
    result += kDigits[byte & 0xf];
  }
  return result;
}

// The number of insertions, deletions, replacements and swaps of adjacent
// characters that turn one word into the other. Ignores case; `_` equals `-`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  const auto same = [](char x, char y) {
    const auto fold = [](char c) {
      return c == '-' ? '_' : std::tolower(static_cast<unsigned char>(c));
    };
    return fold(x) == fold(y);
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t change = same(a[i - 1], b[j - 1]) ? 0 : 1;
      cost[i][j] = std::min(
          {cost[i - 1][j] + 1,
           cost[i][j - 1] + 1,
           cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
          same(a[i - 2], b[j - 1])) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string join(
    const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      result += separator;
    }
    result += parts[i];
  }
  return result;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(
      result.begin(), result.end(), result.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
      });
  return result;
}

std::string replace_all(
    std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::optional<std::string> nearest_name(
    std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > 64) {
    return std::nullopt;
  }
  // Up to a third of the letters may differ; with more differences, a
  // suggestion is useless.
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  std::optional<std::string> result;
  for (const std::string& candidate : candidates) {
    const std::size_t cost = distance(name, candidate);
    if (cost < best) {
      best = cost;
      result = candidate;
    }
  }
  return result;
}

std::string did_you_mean(
    std::string_view name, const std::vector<std::string>& candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest ? str_cat("did you mean `", *nearest, "`?") : std::string();
}

std::string wrap(
    std::string_view text, std::size_t columns, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (!result.empty() && column + 1 + word.size() > columns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./=:,@%+";
  if (!word.empty() &&
      word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  return str_cat("'", replace_all(std::string(word), "'", "'\\''"), "'");
}

std::string format_bytes(double bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::ostringstream out;
  out << std::fixed << std::setprecision(unit == 0 ? 0 : 2) << bytes << " "
      << kUnits[unit];
  return out.str();
}

std::string format_seconds(double seconds) {
  std::ostringstream out;
  if (seconds < 10) {
    out << std::fixed << std::setprecision(1) << seconds << " s";
    return out.str();
  }
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 120) {
    return str_cat(total, " s");
  }
  if (total < 7200) {
    return str_cat(total / 60, " min ", total % 60, " s");
  }
  return str_cat(total / 3600, " h ", total % 3600 / 60, " min");
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto character = decode_utf8(text);
    const std::size_t bytes = character ? character->bytes : 1;
    const bool is_shown = character && !is_control(character->value);
    result += is_shown ? text.substr(0, bytes) : escaped(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return result;
}

std::string printable_lines(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) {
    line = printable(line);
  }
  return join(lines, "\n");
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end ||
      !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace accelerate
