// SPDX-License-Identifier: Apache-2.0
// Sockets with addresses like `unix:/path` or `tcp:address:port`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace accelerate {

struct Endpoint {
  bool is_unix = false;
  std::string address;  ///< The socket's path if `is_unix`.
  std::uint16_t port = 0;

  std::string text() const;
};

/// Parses `unix:PATH` or `tcp:ADDRESS:PORT`. Throws `ConfigError` for any other
/// text.
Endpoint parse_endpoint(const std::string& text);

/// Opens a listening, non-blocking socket. Port 0 selects a free port. Throws
/// an `IoError` that names the address and the reason.
UniqueFd listen_on(const Endpoint& endpoint);
std::uint16_t bound_port(int socket);
/// Returns the address of the other end of a connection, for messages.
std::string remote_address(int socket);
/// Returns the address of this end of a connection.
std::string local_address(int socket);

/// Returns why the name or address `name` cannot be resolved, or nothing if it
/// can be resolved.
std::optional<std::string> resolve_problem(const std::string& name);

/// Returns whether `endpoint` resolves to a loopback address.
bool is_loopback(const Endpoint& endpoint);

/// Returns the endpoint on which a server must listen so that other machines
/// reach the server at `endpoint`. On some systems, a machine's own hostname
/// resolves to a loopback address, while other machines resolve it to a
/// different address. In that case, returns 0.0.0.0, so that the server listens
/// on all addresses.
Endpoint listening_endpoint(const Endpoint& endpoint);

/// Returns the network interface through which this machine reaches `endpoint`,
/// such as `eth0`; empty if unknown. Does not send any packets.
std::string interface_towards(const Endpoint& endpoint);

/// Connects within `timeout`. If this fails, throws an `IoError` that names the
/// address and the reason.
UniqueFd connect_to(
    const Endpoint& endpoint, std::chrono::milliseconds timeout);

/// Enables TCP keepalive, which detects an unreachable machine after 11 s.
/// Without keepalive, a connection to an unreachable machine stays open.
void enable_keepalive(int socket);

/// A reserved TCP port. While `socket` is open, the system does not assign the
/// port to another process, but a server that sets SO_REUSEADDR can bind the
/// port.
struct ReservedPort {
  UniqueFd socket;
  std::uint16_t port = 0;
};
/// Reserves `requested_port` on `address`, or any free port if `requested_port`
/// is 0.
ReservedPort reserve_port(
    const std::string& address, std::uint16_t requested_port = 0);

/// Sends or receives all bytes within `timeout`. Returns false if the
/// connection closes or the timeout expires.
bool send_all(
    int socket, std::string_view bytes, std::chrono::milliseconds timeout);
bool receive_all(
    int socket,
    char* bytes,
    std::size_t count,
    std::chrono::milliseconds timeout);

}  // namespace accelerate
