// SPDX-License-Identifier: Apache-2.0
// Sockets by address text: `unix:/path` or `tcp:host:port`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace accelerate {

struct Endpoint {
  bool is_unix = false;
  std::string host;  ///< Or the path.
  std::uint16_t port = 0;

  std::string text() const;
};

/// Throws `ConfigError` when the text is neither form.
Endpoint parse_endpoint(const std::string& text);

/// Opens a listening, non-blocking socket. Port 0 takes a free one. Throws
/// `IoError` naming address and reason.
UniqueFd listen_on(const Endpoint& endpoint);
std::uint16_t bound_port(int socket);
/// The address of the other side, for messages.
std::string peer_text(int socket);
/// The address this side of a connection has.
std::string local_address(int socket);

/// Whether the name stands for this machine's loopback, here.
bool is_loopback(const Endpoint& endpoint);

/// The network interface through which this machine reaches `endpoint`, such as
/// `eth0`; empty when that is not known. Sends nothing.
std::string interface_towards(const Endpoint& endpoint);

/// Connects within `timeout`. Throws `IoError` naming address and reason.
UniqueFd connect_to(
    const Endpoint& endpoint, std::chrono::milliseconds timeout);

/// Lets the kernel ask whether the other side is still there: one that was cut
/// off sends no goodbye, and is known to be gone after 11 s.
void watch_connection(int socket);

/// A free TCP port on `host`, kept for us while the descriptor lives: nobody
/// is given it by chance, and a server that allows address reuse can open it.
struct ReservedPort {
  UniqueFd socket;
  std::uint16_t port = 0;
};
ReservedPort reserve_port(const std::string& host, std::uint16_t wanted = 0);

/// Sends or receives all bytes within `timeout`; false when the other side is
/// gone or too slow.
bool send_all(
    int socket, std::string_view bytes, std::chrono::milliseconds timeout);
bool receive_all(
    int socket,
    char* bytes,
    std::size_t count,
    std::chrono::milliseconds timeout);

}  // namespace accelerate
