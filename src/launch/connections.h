// SPDX-License-Identifier: Apache-2.0
// Sockets of a small server: who may come in, what has arrived, what is still
// to be sent. What the bytes mean is its handler's business.
#pragma once

#include <chrono>
#include <cstdint>
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

/// What a server does with its connections.
class ConnectionHandler {
 public:
  enum class Verdict {
    stranger,  ///< Has not proved yet who it is.
    known,
    gone,  ///< The connection has to end.
  };

  virtual ~ConnectionHandler() = default;
  virtual void on_connect(std::uint64_t id, const std::string& address) = 0;
  /// Takes what it understands off the front of `incoming`.
  virtual Verdict on_bytes(std::uint64_t id, std::string& incoming) = 0;
  /// The connection has ended, from whichever side.
  virtual void on_close(std::uint64_t id) = 0;
};

struct ConnectionLimits {
  /// A stranger may stay this long.
  std::chrono::milliseconds hello_timeout{10000};
  /// Strangers from the network at a time; more wait in the kernel's queue.
  /// Those of a Unix socket could open its folder and are not counted.
  std::size_t max_strangers = 64;
};

/// Not thread-safe, but for `wake` and `wait`.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws `IoError` when an endpoint cannot be opened.
  Connections(
      const std::vector<Endpoint>& endpoints,
      const ConnectionLimits& limits,
      ConnectionHandler& handler);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  ~Connections();

  /// Where they listen, with the ports they were given.
  const std::vector<Endpoint>& endpoints() const { return bound_; }

  struct Ready {
    epoll_event events[64];
    int count = 0;
  };
  /// Waits for traffic or a `wake`, at most until `deadline`.
  Ready wait(Clock::time_point deadline) const;
  /// Ends a `wait`, now or the next one; from any thread.
  void wake() const;

  /// Reads and accepts, and sends away strangers who had their time.
  void handle(const Ready& ready);
  /// When `handle` has something to do though nothing arrives.
  std::optional<Clock::time_point> next_deadline() const;

  /// Keeps `bytes` for the next `flush`.
  void send(std::uint64_t id, std::string_view bytes);
  /// Sends what the sockets take; true when nothing is left over.
  bool flush();

 private:
  struct Connection {
    UniqueFd socket;
    bool is_local = false;
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

  void watch(int fd, std::uint64_t id, std::uint32_t events);
  void handle_event(const epoll_event& event);
  void accept_from(Listener& listener);
  void add(UniqueFd socket, bool is_local);
  void read_from(std::uint64_t id);
  bool flush_one(std::uint64_t id, Connection& connection);
  void drop(std::uint64_t id);
  void forget_stranger(std::uint64_t id);
  void send_strangers_away();
  bool is_crowded() const;
  std::chrono::milliseconds patience() const;
  void pause(Listener& listener);
  void resume_listeners();

  ConnectionLimits limits_;
  ConnectionHandler& handler_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<Endpoint> bound_;
  std::vector<Listener> listeners_;
  Clock::time_point rest_until_;  // After the system ran out of descriptors.
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::set<std::uint64_t> strangers_;  // Oldest first.
  std::size_t distant_strangers_ = 0;
  std::set<std::uint64_t> unsent_;
  std::uint64_t next_id_ = 0;
};

}  // namespace accelerate
