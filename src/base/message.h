// SPDX-License-Identifier: Apache-2.0
// Messages for the user, in the one form that all parts of the library use.
//
//     print_warning("the folder is not empty");   // warning: the folder is …
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace accelerate {

/// Writes `text` and a newline to stderr in one piece, so that lines from
/// several threads do not mix.
void print_line(std::string_view text);
void print_warning(std::string_view text);
void print_error(std::string_view text);

/// Calls `function`, and prints its error instead of throwing it; for
/// destructors.
template <typename Function>
void print_errors_of(Function&& function) noexcept {
  try {
    function();
  } catch (const std::exception& error) {
    print_error(error.what());
  }
}

}  // namespace accelerate
