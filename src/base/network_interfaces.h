// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace accelerate {

/// Names of the network interfaces of this host: `lo`, `eth0`, …
std::vector<std::string> network_interfaces();

}  // namespace accelerate
