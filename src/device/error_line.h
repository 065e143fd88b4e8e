// SPDX-License-Identifier: Apache-2.0
// Shortens the message of another library's exception to one line.
#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace accelerate {

/// Returns the first line of the exception's message, without LibTorch's
/// backtrace.
inline std::string error_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace accelerate
