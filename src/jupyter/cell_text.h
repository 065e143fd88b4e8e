// SPDX-License-Identifier: Apache-2.0
// The text of a cell: whether it is complete, and its last expression.
#pragma once

#include <cstddef>
#include <string>

namespace accelerate::jupyter {

enum class Completeness { complete, incomplete, invalid };

/// Returns `complete` if all brackets, strings and comments in `code` are
/// closed, `incomplete` if `code` needs another line, and `invalid` if a
/// closing bracket has no opening bracket.
Completeness completeness(const std::string& code);

/// Returns `code`, changed so that it displays the value of its last
/// expression: if that expression has no final semicolon, the expression
/// becomes the argument of a call to `display` from the prelude. Compiler
/// messages still refer to the original lines of the cell `name`.
std::string with_display(const std::string& code, const std::string& name);

/// `byte_position` converts a position in `text` from characters to bytes;
/// `character_position` converts it from bytes to characters.
std::size_t byte_position(const std::string& text, std::size_t characters);
std::size_t character_position(const std::string& text, std::size_t bytes);

}  // namespace accelerate::jupyter
