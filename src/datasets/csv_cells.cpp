// SPDX-License-Identifier: Apache-2.0
#include "datasets/csv_cells.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <type_traits>

#include "base/text.h"
#include "datasets/values.h"

namespace transformers::datasets {
namespace {

// The words that pandas reads as missing values by default, sorted.
constexpr std::array<std::string_view, 19> kMissingWords = {
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null"};
constexpr std::size_t kLongestMissingWord = 8;

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::string_view without_plus(std::string_view text) {
  const bool plus = text.starts_with('+') && !text.starts_with("+-");
  return plus ? text.substr(1) : text;
}

// The value of a number that is too large or too small for a double.
double extreme_value(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  const std::size_t exponent_at =
      std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, exponent_at);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_of("123456789");
  // The exponent may be too large for an integer.
  std::string_view exponent =
      text.substr(std::min(exponent_at + 1, text.size()));
  const bool negative_exponent = exponent.starts_with('-');
  const auto shift = parse_cell_integer(exponent.empty() ? "0" : exponent);
  // Keeps the following sum within the range of the type.
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  const bool is_small = shift.size == IntegerSize::fits
                            ? std::clamp(shift.value, -kLimit, kLimit) +
                                      static_cast<std::int64_t>(point) <
                                  static_cast<std::int64_t>(first)
                            : negative_exponent;
  const double value = is_small ? 0.0 : std::numeric_limits<double>::infinity();
  return negative ? -value : value;
}

std::optional<double> parse_infinity(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative || text.starts_with('+') ? 1 : 0);
  const std::string word = accelerate::lower(text.substr(0, 9));
  if (word != "inf" && word != "infinity") {
    return std::nullopt;
  }
  const double value = std::numeric_limits<double>::infinity();
  return negative ? -value : value;
}

std::optional<std::int64_t> parse_whole(std::string_view text) {
  const auto parsed = parse_cell_integer(text);
  if (parsed.size == IntegerSize::fits) {
    return parsed.value;
  }
  const auto real = parse_cell_real(text);
  return real ? whole(*real) : std::nullopt;
}

template <typename T>
std::optional<Value> as_value(const std::optional<T>& parsed) {
  return parsed ? std::optional<Value>(*parsed) : std::nullopt;
}

template <typename Number>
std::string written(Number value) {
  std::array<char, 400> buffer{};
  std::to_chars_result end{};
  if constexpr (std::is_floating_point_v<Number>) {
    end = std::to_chars(
        buffer.data(),
        buffer.data() + buffer.size(),
        value,
        std::chars_format::fixed);
  } else {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  }
  return {buffer.data(), end.ptr};
}

}  // namespace

ParsedInteger parse_cell_integer(std::string_view text) {
  text = without_plus(without_spaces(text));
  const char* const end = text.data() + text.size();
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ptr != end ||
      parsed.ec == std::errc::invalid_argument) {
    return {};
  }
  if (parsed.ec == std::errc()) {
    return {IntegerSize::fits, value};
  }
  std::uint64_t large = 0;
  const auto again = std::from_chars(text.data(), end, large);
  return {
      again.ec == std::errc() ? IntegerSize::large : IntegerSize::very_large,
      0};
}

std::optional<double> parse_cell_real(std::string_view text) {
  if (const auto infinity = parse_infinity(text)) {
    return infinity;
  }
  text = without_plus(without_spaces(text));
  // `from_chars` also accepts words such as "nan" and "inf".
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || !(std::isdigit(static_cast<unsigned char>(digits[0])) ||
                          digits[0] == '.')) {
    return std::nullopt;
  }
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  return parsed.ec == std::errc() ? value : extreme_value(text);
}

std::optional<bool> parse_cell_boolean(std::string_view text) {
  if (text.size() != 4 && text.size() != 5) {
    return std::nullopt;
  }
  const std::string word = accelerate::lower(text);
  return word == "true"    ? std::optional(true)
         : word == "false" ? std::optional(false)
                           : std::nullopt;
}

bool has_minus_sign(std::string_view text) {
  return without_spaces(text).starts_with('-');
}

bool is_written_as(std::int64_t value, std::string_view text) {
  return written(value) == text;
}

bool is_written_as(double value, std::string_view text) {
  const double size = std::abs(value);
  const bool is_plain =
      value == 0 ? !std::signbit(value) : size >= 1e-6 && size < 1e10;
  return is_plain && written(value) == text;
}

bool is_missing_word(std::string_view text) {
  return text.size() <= kLongestMissingWord &&
         std::binary_search(kMissingWords.begin(), kMissingWords.end(), text);
}

std::optional<Value> parse_cell(
    std::string_view text, ColumnType type, bool keep_default_na) {
  if (keep_default_na && is_missing_word(text)) {
    return Value();
  }
  switch (type) {
    case ColumnType::string:
      return Value(std::string(text));
    case ColumnType::integer:
      return as_value(parse_whole(text));
    case ColumnType::real:
      return as_value(parse_cell_real(text));
    case ColumnType::boolean:
      return as_value(parse_cell_boolean(text));
    default:
      return std::nullopt;
  }
}

}  // namespace transformers::datasets
