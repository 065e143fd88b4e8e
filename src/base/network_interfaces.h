// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace accelerate {

/// Returns the names of the network interfaces of this machine: `lo`, `eth0`, …
std::vector<std::string> network_interfaces();

}  // namespace accelerate
