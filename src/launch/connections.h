// SPDX-License-Identifier: Apache-2.0
// The sockets of a small server. Accepts connections, and buffers received and
// unsent bytes. A handler interprets the bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sys/epoll.h>

#include "base/socket.h"
#include "base/unique_fd.h"

namespace accelerate {

/// Handles the events on a server's connections.
class ConnectionHandler {
 public:
  enum class State {
    unauthenticated,  ///< The client has not yet proved that it has the secret.
    authenticated,
    closing,  ///< The connection must be closed.
  };

  virtual ~ConnectionHandler() = default;
  virtual void on_connect(std::uint64_t id, const std::string& address) = 0;
  /// Handles the complete messages at the start of `incoming` and removes them
  /// from `incoming`. Returns the state of the connection.
  virtual State on_bytes(std::uint64_t id, std::string& incoming) = 0;
  /// Called after either side has closed the connection.
  virtual void on_close(std::uint64_t id) = 0;
};

/// Limits connections that have not authenticated. Connections to a Unix socket
/// are not counted, because the permissions of the socket's folder protect the
/// socket.
struct ConnectionLimits {
  /// A connection that does not authenticate within this time is closed.
  std::chrono::milliseconds hello_timeout{10000};
  /// Replaces `hello_timeout` while `max_unauthenticated` connections are open.
  std::chrono::milliseconds crowded_hello_timeout{1000};
  /// Maximum number of unauthenticated connections from the network. At most
  /// half of them may come from one address (with IPv6: from one /64 network).
  ///
  /// When the limit is reached, the oldest connection of the address with the
  /// most unauthenticated connections is closed, provided that this address has
  /// at least two more connections than the address of the new connection.
  /// Otherwise, the new connection is closed. A client whose connection was
  /// closed tries again.
  std::size_t max_unauthenticated = 64;
};

/// The connections of a server. Thread safety: only `wake` and `wait` may run
/// at the same time as other calls.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  /// Opens all endpoints. Throws `IoError` if an endpoint cannot be opened.
  Connections(
      const std::vector<Endpoint>& endpoints,
      const ConnectionLimits& limits,
      ConnectionHandler& handler);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  ~Connections();

  /// Returns the listening endpoints, with the ports that the system assigned.
  const std::vector<Endpoint>& endpoints() const { return bound_; }

  struct Ready {
    epoll_event events[64];
    int count = 0;
  };
  /// Waits, until `deadline` at the latest, for socket events or a call to
  /// `wake`.
  Ready wait(Clock::time_point deadline) const;
  /// Ends the current or next `wait`. May be called from any thread.
  void wake() const;

  /// Accepts connections and reads bytes on the ready sockets, and closes
  /// connections that did not authenticate in time.
  void handle(const Ready& ready);
  /// Returns the time when `handle` must be called even if no event has
  /// occurred.
  std::optional<Clock::time_point> next_deadline() const;

  /// Buffers `bytes` for the next `flush`.
  void send(std::uint64_t id, std::string_view bytes);
  /// Sends as many buffered bytes as the sockets accept. Returns true if no
  /// buffered bytes are left.
  bool flush();

 private:
  struct Connection {
    UniqueFd socket;
    std::string origin;  // The network address; empty on a Unix socket.
    Clock::time_point since;
    std::string incoming;
    std::string outgoing;
    bool wants_write = false;
  };
  struct Listener {
    UniqueFd socket;
    bool is_local = false;
    bool is_paused = false;
  };

  void listen(Endpoint endpoint);
  void remove_unix_sockets() const;
  void watch(int fd, std::uint64_t id, std::uint32_t events);
  void handle_event(const epoll_event& event);
  void accept_from(Listener& listener);
  void add(UniqueFd socket, const std::string& origin);
  bool admit(const std::string& origin);
  std::size_t unauthenticated_from(const std::string& origin) const;
  void read_from(std::uint64_t id);
  bool flush_one(std::uint64_t id, Connection& connection);
  void drop(std::uint64_t id);
  void remove_unauthenticated(std::uint64_t id);
  void close_timed_out();
  bool is_full() const;
  std::chrono::milliseconds hello_timeout() const;
  void pause(Listener& listener);
  void resume_listeners();

  ConnectionLimits limits_;
  ConnectionHandler& handler_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<Endpoint> bound_;
  std::vector<Listener> listeners_;
  Clock::time_point paused_until_;  // Set when file descriptors run out.
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::set<std::uint64_t> unauthenticated_;  // Oldest first.
  // The unauthenticated connections from the network, by address; oldest first.
  std::map<std::string, std::set<std::uint64_t>> by_origin_;
  std::size_t num_remote_unauthenticated_ = 0;
  std::set<std::uint64_t> unsent_;
  std::uint64_t next_id_ = 0;
};

}  // namespace accelerate
