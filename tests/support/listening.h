// SPDX-License-Identifier: Apache-2.0
// Where a process waits for connections, as the kernel tells it.
#pragma once

#include <set>
#include <string>

namespace accelerate {

/// 127.0.0.1 as `listening_addresses` writes it.
inline constexpr const char* kLoopbackInHex = "0100007F";

/// The local addresses, in the kernel's hexadecimal form, of the TCP sockets on
/// which `process` listens: its number, or "self".
std::multiset<std::string> listening_addresses(const std::string& process);

}  // namespace accelerate
