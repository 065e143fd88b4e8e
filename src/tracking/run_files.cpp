// SPDX-License-Identifier: Apache-2.0
#include "tracking/run_files.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

// Below the limit of file systems, 255 bytes, so that callers can add suffixes.
constexpr std::size_t kMaxNameBytes = 160;

std::string hex_digits(std::uint64_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text(static_cast<std::size_t>(digits), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit) {
    *digit = kDigits[value & 15];
    value >>= 4;
  }
  return text;
}

// FNV-1a: the same in every version and on every machine.
std::uint64_t name_checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

bool must_escape(unsigned char c, bool first) {
  return c < 0x20 || c == 0x7f || (c == '.' && first) ||
         std::string_view("/\\%:*?\"<>|").find(static_cast<char>(c)) !=
             std::string_view::npos;
}

}  // namespace

std::string file_name_of(std::string_view name) {
  std::string result;
  for (const char c : valid_utf8(std::string(name))) {
    const auto byte = static_cast<unsigned char>(c);
    if (must_escape(byte, result.empty())) {
      result += str_cat("%", hex_digits(byte, 2));
    } else {
      result += c;
    }
  }
  if (result.empty()) {
    return "%";
  }
  if (result.size() > kMaxNameBytes) {
    std::size_t end = kMaxNameBytes;
    while ((static_cast<unsigned char>(result[end]) & 0xC0U) == 0x80U) {
      --end;  // Not inside a character.
    }
    result.resize(end);
    result += str_cat("%", hex_digits(name_checksum(name), 16));
  }
  return result;
}

std::string valid_utf8(std::string text) {
  if (find_invalid_utf8(text) == std::string::npos) {
    return text;
  }
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const auto character = decode_utf8(rest);
    result += character ? rest.substr(0, character->bytes) : "\xEF\xBF\xBD";
    rest.remove_prefix(character ? character->bytes : 1);
  }
  return result;
}

std::filesystem::path run_folder(
    const TrackerSetup& setup, const std::string& run) {
  return setup.logging_dir / file_name_of(setup.project) / file_name_of(run);
}

std::string new_run_name() {
  const std::time_t seconds =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H-%M-%SZ", &parts);
  std::random_device random;
  return str_cat(text, "-", lower(hex_digits(random(), 6)));
}

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void check_kwargs(
    const TrackerSetup& setup,
    const std::string& tracker,
    const std::vector<std::string>& known) {
  if (setup.kwargs.is_null()) {
    return;
  }
  if (!setup.kwargs.is_object()) {
    throw ArgumentError(
        str_cat("`init_kwargs` for tracker `", tracker, "` is not an object"),
        "pass the options by name");
  }
  for (const JsonMember& member : setup.kwargs.as_object()) {
    if (std::ranges::find(known, member.key) == known.end()) {
      throw ArgumentError(
          str_cat("tracker `", tracker, "` has no option `", member.key, "`"),
          str_cat("its options are: ", join(known, ", ")));
    }
  }
}

std::string text_kwarg(
    const TrackerSetup& setup,
    const std::string& tracker,
    const std::string& key,
    const std::string& otherwise) {
  const Json* const value = setup.kwargs.find(key);
  if (value == nullptr || value->is_null()) {
    return otherwise;
  }
  if (!value->is_string()) {
    throw ArgumentError(str_cat(
        "the option `", key, "` of tracker `", tracker, "` must be a string"));
  }
  return value->as_string();
}

}  // namespace accelerate
