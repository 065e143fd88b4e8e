// SPDX-License-Identifier: Apache-2.0
// The text of a cell: where it ends, and what its last line is.
#pragma once

#include <cstddef>
#include <string>

namespace accelerate::jupyter {

enum class Completeness { complete, incomplete, invalid };

/// Whether a client should run the text or ask for another line: brackets,
/// strings and comments are closed. `invalid` closes what was never opened.
Completeness completeness(const std::string& code);

/// The code with its last expression shown: `x` without a semicolon at the
/// end becomes a call of the prelude's `display`. Messages of the compiler
/// still name its line in the cell `name`.
std::string with_display(const std::string& code, const std::string& name);

/// From a position that counts characters to one that counts bytes, and back.
std::size_t byte_position(const std::string& text, std::size_t characters);
std::size_t character_position(const std::string& text, std::size_t bytes);

}  // namespace accelerate::jupyter
