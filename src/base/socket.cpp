// SPDX-License-Identifier: Apache-2.0
#include "base/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <ifaddrs.h>
#include <netdb.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family = AF_UNSPEC;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

[[noreturn]] void fail(
    const char* action, const Endpoint& endpoint, const std::string& reason) {
  throw IoError(str_cat("cannot ", action, " ", endpoint.text(), ": ", reason));
}

Address unix_address(const Endpoint& endpoint) {
  Address address;
  auto* path = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (endpoint.address.size() >= sizeof(path->sun_path)) {
    fail("use", endpoint, "the path is too long for a socket");
  }
  path->sun_family = AF_UNIX;
  std::memcpy(
      path->sun_path, endpoint.address.c_str(), endpoint.address.size() + 1);
  address.length = sizeof(sockaddr_un);
  address.family = AF_UNIX;
  return address;
}

Address resolve(const Endpoint& endpoint, const char* action) {
  if (endpoint.is_unix) {
    return unix_address(endpoint);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(
      endpoint.address.c_str(),
      std::to_string(endpoint.port).c_str(),
      &hints,
      &found);
  if (error != 0) {
    fail(action, endpoint, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(
      found, &::freeaddrinfo);
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  address.family = found->ai_family;
  return address;
}

// Waits for `events`; returns false when the deadline passes.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    pollfd entry{fd, events, 0};
    const int ready = ::poll(
        &entry, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) {
      return true;
    }
    if (ready == 0 || errno != EINTR) {
      return false;
    }
  }
}

std::string address_text(const sockaddr_storage& storage, bool with_port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
    return with_port ? str_cat(text, ":", ntohs(in.sin_port)) : text;
  }
  if (storage.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text));
    return with_port ? str_cat("[", text, "]:", ntohs(in.sin6_port)) : text;
  }
  return "this machine";
}

}  // namespace

std::string Endpoint::text() const {
  if (is_unix) {
    return "unix:" + address;
  }
  const bool is_v6 = address.find(':') != std::string::npos;
  return is_v6 ? str_cat("tcp:[", address, "]:", port)
               : str_cat("tcp:", address, ":", port);
}

Endpoint parse_endpoint(const std::string& text) {
  if (text.starts_with("unix:")) {
    return {true, text.substr(5), 0};
  }
  const auto colon = text.rfind(':');
  const auto port = parse_integer(
      std::string_view(text).substr(std::min(colon, text.size() - 1) + 1));
  if (!text.starts_with("tcp:") || colon < 5 || !port || *port < 0 ||
      *port > 65535) {
    throw ConfigError(str_cat(
        "`", printable(text), "` is not `unix:PATH` or `tcp:ADDRESS:PORT`"));
  }
  std::string address = text.substr(4, colon - 4);
  if (address.starts_with("[") && address.ends_with("]")) {
    address = address.substr(1, address.size() - 2);
  }
  return {false, address, static_cast<std::uint16_t>(*port)};
}

UniqueFd listen_on(const Endpoint& endpoint) {
  const Address address = resolve(endpoint, "listen on");
  UniqueFd fd(
      ::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (!endpoint.is_unix) {
    // Lets the next job use the port while connections of a finished job are
    // still in TIME_WAIT.
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  }
  if (!fd || ::bind(fd.get(), address.get(), address.length) != 0 ||
      ::listen(fd.get(), 512) != 0) {
    fail("listen on", endpoint, errno_text(errno));
  }
  return fd;
}

std::uint16_t bound_port(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length);
  return storage.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<sockaddr_in6&>(storage).sin6_port)
             : ntohs(reinterpret_cast<sockaddr_in&>(storage).sin_port);
}

std::string remote_address(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &length);
  return address_text(storage, true);
}

std::string local_address(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length);
  return address_text(storage, false);
}

std::optional<std::string> resolve_problem(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return ::gai_strerror(error);
  }
  ::freeaddrinfo(found);
  return std::nullopt;
}

bool is_loopback(const Endpoint& endpoint) {
  const Address address = resolve(endpoint, "look up");
  const std::string text = address_text(address.storage, false);
  return text.starts_with("127.") || text == "::1";
}

Endpoint listening_endpoint(const Endpoint& endpoint) {
  const bool is_hostname = endpoint.address != "localhost" &&
                           endpoint.address != "::1" &&
                           !endpoint.address.starts_with("127.");
  return is_hostname && is_loopback(endpoint)
             ? Endpoint{false, "0.0.0.0", endpoint.port}
             : endpoint;
}

std::string interface_towards(const Endpoint& endpoint) {
  const Address address = resolve(endpoint, "reach");
  const UniqueFd fd(::socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // For a datagram socket, `connect` only chooses a route.
  if (!fd || ::connect(fd.get(), address.get(), address.length) != 0) {
    return {};
  }
  const std::string source_address = local_address(fd.get());
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> guard(
      all, &::freeifaddrs);
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) {
      continue;
    }
    const int family = entry->ifa_addr->sa_family;
    const std::size_t size = family == AF_INET    ? sizeof(sockaddr_in)
                             : family == AF_INET6 ? sizeof(sockaddr_in6)
                                                  : 0;
    sockaddr_storage storage{};
    std::memcpy(&storage, entry->ifa_addr, size);
    if (size > 0 && address_text(storage, false) == source_address) {
      return entry->ifa_name;
    }
  }
  return {};
}

UniqueFd connect_to(
    const Endpoint& endpoint, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const Address address = resolve(endpoint, "connect to");
  UniqueFd fd(
      ::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    fail("connect to", endpoint, errno_text(errno));
  }
  int error = 0;
  if (::connect(fd.get(), address.get(), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS || error == EAGAIN) {
      if (!wait_for(fd.get(), POLLOUT, deadline)) {
        fail("connect to", endpoint, "no answer before the timeout");
      }
      socklen_t length = sizeof(error);
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
  }
  if (error != 0) {
    fail("connect to", endpoint, errno_text(error));
  }
  if (!endpoint.is_unix) {
    enable_keepalive(fd.get());
  }
  return fd;
}

void enable_keepalive(int socket) {
  const int yes = 1;
  const int idle = 5;
  const int interval = 2;
  const int probes = 3;
  const unsigned unanswered_ms = 11000;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  ::setsockopt(
      socket,
      IPPROTO_TCP,
      TCP_USER_TIMEOUT,
      &unanswered_ms,
      sizeof(unanswered_ms));
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

// The system does not hand out the port of a bound socket again, even if the
// socket does not listen. A server can still bind the port with SO_REUSEADDR,
// which every relevant TCP server sets.
ReservedPort reserve_port(
    const std::string& address, std::uint16_t requested_port) {
  const Endpoint endpoint{false, address, requested_port};
  const Address resolved = resolve(endpoint, "reserve");
  UniqueFd fd(::socket(resolved.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (!fd || ::bind(fd.get(), resolved.get(), resolved.length) != 0) {
    fail("reserve", endpoint, errno_text(errno));
  }
  const std::uint16_t port = bound_port(fd.get());
  return {std::move(fd), port};
}

bool send_all(
    int socket, std::string_view bytes, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      if (!wait_for(socket, POLLOUT, deadline)) {
        return false;
      }
    } else if (sent < 0 && errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receive_all(
    int socket,
    char* bytes,
    std::size_t count,
    std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (count > 0) {
    const ssize_t got = ::recv(socket, bytes, count, 0);
    if (got > 0) {
      bytes += got;
      count -= static_cast<std::size_t>(got);
    } else if (got < 0 && errno == EAGAIN) {
      if (!wait_for(socket, POLLIN, deadline)) {
        return false;
      }
    } else if (got == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace accelerate
