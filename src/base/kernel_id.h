// SPDX-License-Identifier: Apache-2.0
// Tells whether two processes run under the same kernel.
#pragma once

#include <string>

namespace accelerate {

/// An identifier that all processes under one running kernel share, even in
/// different containers, and that changes whenever the machine boots. Empty if
/// the system does not provide it.
std::string kernel_id();

}  // namespace accelerate
