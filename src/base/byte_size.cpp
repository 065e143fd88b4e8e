// SPDX-License-Identifier: Apache-2.0
#include "accelerate/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 10> kUnits{{
    {"", 1},
    {"B", 1},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", std::uint64_t{1} << 10},
    {"MiB", std::uint64_t{1} << 20},
    {"GiB", std::uint64_t{1} << 30},
    {"TiB", std::uint64_t{1} << 40},
}};

// Parses digits with an optional decimal point, but no sign, exponent or "inf".
std::pair<const char*, std::errc> parse_fraction(
    const std::string_view text, double& number) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !is_digit(text.front())) {
    return {text.data(), std::errc::invalid_argument};
  }
  const auto [end, error] = std::from_chars(
      text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  return {end, error};
}

[[noreturn]] void throw_not_a_size(const std::string_view text) {
  throw ArgumentError(
      str_cat("`", text, "` is not a file size"),
      "write a number with a unit, such as `5GB`, `1.5GB` or `512MiB`; the "
      "result must be a whole number of bytes");
}

}  // namespace

ByteSize::ByteSize(const std::string_view text) {
  double number = 0;
  const char* const last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, bytes_);
  const bool is_whole = error == std::errc() && (end == last || *end != '.');
  if (!is_whole) {
    std::tie(end, error) = parse_fraction(text, number);
  }
  if (error != std::errc()) {
    throw_not_a_size(text);
  }
  auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.starts_with(' ')) {
    unit.remove_prefix(1);
  }
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) {
      continue;
    }
    if (!is_whole) {
      const double bytes = number * static_cast<double>(factor);
      if (bytes != std::floor(bytes) || bytes >= 0x1p64) {
        throw_not_a_size(text);
      }
      bytes_ = static_cast<std::uint64_t>(bytes);
      return;
    }
    if (bytes_ > std::numeric_limits<std::uint64_t>::max() / factor) {
      throw_not_a_size(text);
    }
    bytes_ *= factor;
    return;
  }
  throw_not_a_size(text);
}

std::uint64_t ByteSize::checked(const std::int64_t bytes) {
  if (bytes < 0) {
    throw_not_a_size(std::to_string(bytes));
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace accelerate
