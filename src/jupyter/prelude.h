// SPDX-License-Identifier: Apache-2.0
// What every C++ notebook begins with.
#pragma once

#include <string>

namespace accelerate::jupyter {

/// The header that is precompiled: LibTorch and this library, unless `plain`,
/// and how a value is shown.
std::string prelude_header(bool plain);

/// The code that runs before the first cell.
std::string prelude_code();

}  // namespace accelerate::jupyter
