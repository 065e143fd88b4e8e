// SPDX-License-Identifier: Apache-2.0
// Tells whether two processes run under the same kernel.
#pragma once

#include <string>

namespace accelerate {

/// An identifier that all processes of one running kernel share, also in
/// different containers, and that changes with every start of the machine.
/// Empty if the system does not tell it.
std::string kernel_id();

}  // namespace accelerate
