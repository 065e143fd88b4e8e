// SPDX-License-Identifier: Apache-2.0
// The header and code that every C++ notebook starts with.
#pragma once

#include <string>

namespace accelerate::jupyter {

/// Returns the header to precompile. It contains `display` and, unless `plain`
/// is true, LibTorch and this library.
std::string prelude_header(bool plain);

/// Returns the code that runs before the first cell.
std::string prelude_code();

}  // namespace accelerate::jupyter
