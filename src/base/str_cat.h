// SPDX-License-Identifier: Apache-2.0
// String building without a formatting library.
#pragma once

#include <sstream>
#include <string>
#include <utility>

namespace accelerate {

/// Formats the arguments with `<<` and concatenates them.
template <typename... Args>
[[nodiscard]] std::string str_cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

}  // namespace accelerate
