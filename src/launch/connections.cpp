// SPDX-License-Identifier: Apache-2.0
#include "launch/connections.h"

#include <algorithm>
#include <cerrno>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kWake = 0;
constexpr std::uint64_t kFirstListener = 1;
constexpr std::uint64_t kFirstConnection = 1000;
// Limits how long new connections can delay authenticated connections.
constexpr int kMaxAcceptsPerEvent = 64;

std::string_view bytes_of(const void* address, std::size_t size) {
  return {static_cast<const char*>(address), size};
}

// The part of an address that a client cannot choose freely: an IPv4 address,
// or the /64 network of an IPv6 address.
std::string origin_of(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    return std::string(bytes_of(&v4.sin_addr, sizeof(v4.sin_addr)));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  const std::string_view bytes = bytes_of(&v6, sizeof(v6));
  return std::string(
      IN6_IS_ADDR_V4MAPPED(&v6) ? bytes.substr(12) : bytes.substr(0, 8));
}

}  // namespace

Connections::Connections(
    const std::vector<Endpoint>& endpoints,
    const ConnectionLimits& limits,
    ConnectionHandler& handler)
    : limits_(limits), handler_(handler), next_id_(kFirstConnection) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  watch(wake_.get(), kWake, EPOLLIN);
  try {
    for (const Endpoint& endpoint : endpoints) {
      listen(endpoint);
    }
  } catch (...) {
    // The caller may try other endpoints with the same path.
    remove_unix_sockets();
    throw;
  }
}

Connections::~Connections() {
  remove_unix_sockets();
}

void Connections::listen(Endpoint endpoint) {
  UniqueFd socket = listen_on(endpoint);
  if (!endpoint.is_unix) {
    endpoint.port = bound_port(socket.get());
  }
  watch(socket.get(), kFirstListener + listeners_.size(), EPOLLIN);
  listeners_.push_back({std::move(socket), endpoint.is_unix});
  bound_.push_back(std::move(endpoint));
}

void Connections::remove_unix_sockets() const {
  for (const Endpoint& endpoint : bound_) {
    if (endpoint.is_unix) {
      ::unlink(endpoint.address.c_str());
    }
  }
}

Connections::Ready Connections::wait(Clock::time_point deadline) const {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
  Ready ready;
  ready.count = ::epoll_wait(
      epoll_.get(),
      ready.events,
      64,
      static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 60000)));
  return ready;
}

void Connections::wake() const {
  const std::uint64_t count = 1;
  (void)!::write(wake_.get(), &count, sizeof(count));
}

void Connections::handle(const Ready& ready) {
  for (int i = 0; i < ready.count; ++i) {
    handle_event(ready.events[i]);
  }
  close_timed_out();
  resume_listeners();
}

std::optional<Connections::Clock::time_point> Connections::next_deadline()
    const {
  std::optional<Clock::time_point> next;
  if (!unauthenticated_.empty()) {
    next = connections_.at(*unauthenticated_.begin()).since + hello_timeout();
  }
  const bool any_paused = std::any_of(
      listeners_.begin(), listeners_.end(), [](const Listener& listener) {
        return listener.is_paused;
      });
  if (any_paused) {
    next = std::min(next.value_or(paused_until_), paused_until_);
  }
  return next;
}

void Connections::send(std::uint64_t id, std::string_view bytes) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) {
    found->second.outgoing += bytes;
    unsent_.insert(id);
  }
}

bool Connections::flush() {
  for (const std::uint64_t id :
       std::vector<std::uint64_t>(unsent_.begin(), unsent_.end())) {
    const auto found = connections_.find(id);
    if (found != connections_.end() && !flush_one(id, found->second)) {
      drop(id);
    }
  }
  return unsent_.empty();
}

// Returns false if the connection is broken.
bool Connections::flush_one(std::uint64_t id, Connection& connection) {
  while (!connection.outgoing.empty()) {
    const ssize_t sent = ::send(
        connection.socket.get(),
        connection.outgoing.data(),
        connection.outgoing.size(),
        MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    }
    if (sent < 0) {
      break;
    }
    connection.outgoing.erase(0, static_cast<std::size_t>(sent));
  }
  const bool wants_write = !connection.outgoing.empty();
  if (!wants_write) {
    unsent_.erase(id);
  }
  if (wants_write != connection.wants_write) {
    connection.wants_write = wants_write;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.events |= wants_write ? static_cast<std::uint32_t>(EPOLLOUT) : 0U;
    event.data.u64 = id;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
  }
  return true;
}

void Connections::watch(int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw IoError(str_cat("cannot add a socket to epoll: ", errno_text(errno)));
  }
}

void Connections::handle_event(const epoll_event& event) {
  const std::uint64_t id = event.data.u64;
  if (id == kWake) {
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
  } else if (id < kFirstConnection) {
    accept_from(listeners_[id - kFirstListener]);
  } else if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
    read_from(id);
  }
}

void Connections::accept_from(Listener& listener) {
  for (int i = 0; i < kMaxAcceptsPerEvent; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    UniqueFd socket(::accept4(
        listener.socket.get(),
        reinterpret_cast<sockaddr*>(&address),
        &length,
        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        // No descriptors or memory are left. Without a pause, epoll would
        // report the queue again immediately.
        paused_until_ = Clock::now() + milliseconds(100);
        pause(listener);
      }
      return;
    }
    const std::string origin = listener.is_local ? "" : origin_of(address);
    if (listener.is_local || admit(origin)) {
      add(std::move(socket), origin);
    }
  }
}

std::size_t Connections::unauthenticated_from(const std::string& origin) const {
  const auto found = by_origin_.find(origin);
  return found == by_origin_.end() ? 0 : found->second.size();
}

// Returns whether a connection from `origin` may be added. If necessary, closes
// a connection from an address that has more connections. Workers that start at
// the same time do not replace each other's connections.
bool Connections::admit(const std::string& origin) {
  const std::size_t from_origin = unauthenticated_from(origin);
  if (from_origin >=
      std::max<std::size_t>(1, limits_.max_unauthenticated / 2)) {
    return false;
  }
  if (!is_full()) {
    return true;
  }
  const auto busiest = std::max_element(
      by_origin_.begin(), by_origin_.end(), [](const auto& a, const auto& b) {
        return a.second.size() < b.second.size();
      });
  if (busiest->second.size() < from_origin + 2) {
    return false;
  }
  drop(*busiest->second.begin());
  return true;
}

void Connections::add(UniqueFd socket, const std::string& origin) {
  const std::uint64_t id = next_id_++;
  const std::string address = remote_address(socket.get());
  if (!origin.empty()) {
    enable_keepalive(socket.get());
    by_origin_[origin].insert(id);
    ++num_remote_unauthenticated_;
  }
  watch(socket.get(), id, EPOLLIN | EPOLLRDHUP);
  Connection connection;
  connection.socket = std::move(socket);
  connection.origin = origin;
  connection.since = Clock::now();
  connections_.emplace(id, std::move(connection));
  unauthenticated_.insert(id);
  handler_.on_connect(id, address);
}

void Connections::read_from(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;
  }
  Connection& connection = found->second;
  // One read per event, so that a fast sender does not delay other connections.
  char buffer[65536];
  const ssize_t got =
      ::recv(connection.socket.get(), buffer, sizeof(buffer), 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    drop(id);
    return;
  }
  if (got > 0) {
    connection.incoming.append(buffer, static_cast<std::size_t>(got));
  }
  switch (handler_.on_bytes(id, connection.incoming)) {
    case ConnectionHandler::State::unauthenticated:
      return;
    case ConnectionHandler::State::authenticated:
      remove_unauthenticated(id);
      return;
    case ConnectionHandler::State::closing:
      // Sends the last answer if the socket accepts it without blocking.
      (void)flush_one(id, connection);
      drop(id);
  }
}

void Connections::drop(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;
  }
  remove_unauthenticated(id);
  unsent_.erase(id);
  connections_.erase(found);
  handler_.on_close(id);
}

void Connections::remove_unauthenticated(std::uint64_t id) {
  const std::string& origin = connections_.at(id).origin;
  if (unauthenticated_.erase(id) == 0 || origin.empty()) {
    return;
  }
  --num_remote_unauthenticated_;
  const auto found = by_origin_.find(origin);
  found->second.erase(id);
  if (found->second.empty()) {
    by_origin_.erase(found);
  }
}

void Connections::close_timed_out() {
  const auto now = Clock::now();
  while (!unauthenticated_.empty() &&
         connections_.at(*unauthenticated_.begin()).since + hello_timeout() <=
             now) {
    drop(*unauthenticated_.begin());
  }
}

bool Connections::is_full() const {
  return num_remote_unauthenticated_ >= limits_.max_unauthenticated;
}

milliseconds Connections::hello_timeout() const {
  return is_full()
             ? std::min(limits_.crowded_hello_timeout, limits_.hello_timeout)
             : limits_.hello_timeout;
}

void Connections::pause(Listener& listener) {
  listener.is_paused = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.socket.get(), nullptr);
}

void Connections::resume_listeners() {
  if (Clock::now() < paused_until_) {
    return;
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Listener& listener = listeners_[i];
    if (listener.is_paused) {
      listener.is_paused = false;
      watch(listener.socket.get(), kFirstListener + i, EPOLLIN);
    }
  }
}

}  // namespace accelerate
