// SPDX-License-Identifier: Apache-2.0
// Parses CSV cells as pandas does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transformers/dataset.h"

namespace transformers::datasets {

/// Returns whether pandas reads this text as a missing value, such as `NA`.
bool is_missing_word(std::string_view text);

enum class IntegerSize {
  none,        ///< The text is not an integer.
  fits,        ///< Fits in a signed 64-bit integer.
  large,       ///< Fits only in an unsigned 64-bit integer.
  very_large,  ///< Does not fit in 64 bits.
};

struct ParsedInteger {
  IntegerSize size = IntegerSize::none;
  std::int64_t value = 0;  ///< Set only for `fits`.
};

/// Parse a number, with or without spaces around it. A real number that is too
/// large for a double becomes infinity.
ParsedInteger parse_cell_integer(std::string_view text);
std::optional<double> parse_cell_real(std::string_view text);
/// Parses `true` and `false`, ignoring case.
std::optional<bool> parse_cell_boolean(std::string_view text);

/// Returns whether the text is a number with a minus sign, or begins like one.
bool has_minus_sign(std::string_view text);

/// Return whether Python formats the number as `text`. Always false for real
/// numbers that Python formats with an exponent.
bool is_written_as(std::int64_t value, std::string_view text);
bool is_written_as(double value, std::string_view text);

/// Parses a value of a scalar type. Returns nothing if the text does not match
/// the type. A whole number such as `2.0` is accepted as an integer. If
/// `keep_default_na` is true, a text for which `is_missing_word` is true
/// becomes a missing value.
std::optional<Value> parse_cell(
    std::string_view text, ColumnType type, bool keep_default_na);

}  // namespace transformers::datasets
