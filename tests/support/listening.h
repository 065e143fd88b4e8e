// SPDX-License-Identifier: Apache-2.0
// Lists the sockets on which a process listens, from /proc.
#pragma once

#include <set>
#include <string>

namespace accelerate {

/// 127.0.0.1 in the format of `listening_addresses`.
inline constexpr const char* kLoopbackInHex = "0100007F";

/// Returns the local addresses of the TCP sockets on which `process` (a PID or
/// "self") listens, in the hexadecimal format of /proc/net/tcp.
std::multiset<std::string> listening_addresses(const std::string& process);

}  // namespace accelerate
