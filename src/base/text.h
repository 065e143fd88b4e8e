// SPDX-License-Identifier: Apache-2.0
// Small text utilities.
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

/// Returns the candidate most similar to `name`, or nothing if `name` does not
/// look like a typo of any candidate.
std::optional<std::string> nearest_name(
    std::string_view name, const std::vector<std::string>& candidates);

/// Returns "did you mean `x`?" if candidate `x` is similar to `name`, otherwise
/// an empty string.
std::string did_you_mean(
    std::string_view name, const std::vector<std::string>& candidates);

/// Breaks `text` at spaces into lines of at most `columns` characters. A word
/// that is longer than a line is not broken. Each line after the first is
/// indented by `indent` spaces; the caller must indent the first line.
std::string wrap(
    std::string_view text, std::size_t columns, std::size_t indent);

/// Quotes a word so that a POSIX shell takes it literally.
std::string shell_quote(std::string_view word);

/// Returns text such as "1.50 GB". A KB is 1024 bytes, as in Hugging Face
/// Accelerate.
std::string format_bytes(double bytes);

/// Returns text such as "0.4 s", "41 s", "3 min 20 s" or "2 h 5 min".
std::string format_seconds(double seconds);

/// Escapes control characters and bytes that are not UTF-8, so that untrusted
/// text cannot control the terminal. Text that is already escaped stays the
/// same.
std::string printable(std::string_view text);

/// Like `printable`, but keeps line feeds.
std::string printable_lines(std::string_view text);

/// Parses the whole text as a number. Returns nothing if `text` is not a
/// number.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_double(std::string_view text);

}  // namespace accelerate
