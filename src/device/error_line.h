// SPDX-License-Identifier: Apache-2.0
// What another library's exception says, in a line of ours.
#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

namespace accelerate {

/// The first line of its text; LibTorch's without the stack it carries.
inline std::string error_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace accelerate
