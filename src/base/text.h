// SPDX-License-Identifier: Apache-2.0
// Small things done to text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

std::string join(
    const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);
std::string replace_all(
    std::string text, std::string_view from, std::string_view to);

/// Returns the candidate nearest to `name`, if one is near enough to be a
/// slip of the finger.
std::optional<std::string> nearest_name(
    std::string_view name, const std::vector<std::string>& candidates);

/// "did you mean `x`?", or nothing.
std::string did_you_mean(
    std::string_view name, const std::vector<std::string>& candidates);

/// Breaks `text` at spaces so that no line is longer than `columns`, each line
/// after the first led by `indent` spaces.
std::string wrap(
    std::string_view text, std::size_t columns, std::size_t indent);

/// Quotes a word so that a POSIX shell reads it as it is.
std::string shell_quote(std::string_view word);

/// "1.50 GB", in units of 1024 as the peer prints them.
std::string format_bytes(double bytes);

/// "0.4 s", "41 s", "3 min 20 s".
std::string format_seconds(double seconds);

/// Makes control characters visible, so that text from outside cannot move
/// the cursor or colour the screen.
std::string printable(std::string_view text);

/// Whole text as an integer, or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_double(std::string_view text);

}  // namespace accelerate
