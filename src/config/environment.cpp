// SPDX-License-Identifier: Apache-2.0
#include "config/environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

}  // namespace

Environment::Environment(std::map<std::string, std::string> variables)
    : variables_(std::move(variables)) {
}

Environment Environment::of_this_process() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) {
      result.variables_.emplace(
          text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return result;
}

std::optional<std::string> Environment::get(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) {
    return std::nullopt;
  }
  return found->second;
}

std::optional<std::int64_t> Environment::get_integer(
    const std::string& name, std::int64_t minimum, std::int64_t maximum) const {
  const auto text = get(name);
  if (!text) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < minimum ||
      value > maximum) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            name,
            " is `",
            *text,
            "`, not a whole number from ",
            minimum,
            " to ",
            maximum),
        str_cat("set ", name, " to a number in this range, or unset it"));
  }
  return value;
}

std::optional<bool> Environment::get_flag(const std::string& name) const {
  const auto text = get(name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = parse_boolean(*text);
  if (!value) {
    throw ConfigError(
        str_cat(
            "environment variable ", name, " is `", *text, "`, not a boolean"),
        str_cat("set ", name, " to true or false"));
  }
  return value;
}

std::optional<bool> parse_boolean(const std::string& text) {
  constexpr std::array kYes = {"y", "yes", "t", "true", "on", "1"};
  constexpr std::array kNo = {"n", "no", "f", "false", "off", "0"};
  const std::string word = lower_case(text);
  if (std::find(kYes.begin(), kYes.end(), word) != kYes.end()) {
    return true;
  }
  if (std::find(kNo.begin(), kNo.end(), word) != kNo.end()) {
    return false;
  }
  return std::nullopt;
}

}  // namespace accelerate
