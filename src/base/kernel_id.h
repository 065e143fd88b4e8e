// SPDX-License-Identifier: Apache-2.0
// Identifies the running Linux kernel, to detect whether two processes share
// it.
#pragma once

#include <string>

namespace accelerate {

/// Returns an identifier that is the same for all processes under one running
/// Linux kernel, even in different containers, and that changes when the
/// machine boots. Empty if the system does not provide it.
std::string kernel_id();

}  // namespace accelerate
