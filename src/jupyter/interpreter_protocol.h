// SPDX-License-Identifier: Apache-2.0
// The protocol between the Jupyter kernel and its interpreter. A packet
// consists of the line `<kind> <length>\n` and a text of `length` bytes.
//
// Requests to the interpreter, on the descriptor `kRequests`:
//   setup    paths, one per line: the `accelerate` command, the Jupyter kernel,
//            libraries to load
//   prelude  code that each interpreter, including a worker's, runs before any
//            cell
//   cell     code to run; the reply is sent when the code has finished
//   replay   a cell of the notebook that a worker repeats, with stdout muted
//   target N the last cell that a worker repeats; the worker joins the launch
//            at call number N to `notebook_launcher` in this cell, counted from
//            0
// Replies, on the descriptor `kReplies`: the kind is ok, compile, link,
// exception or interrupted; the text is the error.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

namespace accelerate::jupyter {

inline constexpr int kRequests = 3;
inline constexpr int kReplies = 4;
// The width of the workers' terminal, and the escape code that clears a line.
inline constexpr int kTerminalColumns = 100;
inline constexpr std::string_view kClearLine = "\r\x1b[K";

struct Packet {
  std::string kind;
  std::string text;
};

namespace detail {

inline bool read_bytes(int fd, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t n = ::read(fd, to, count);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    to += n;
    count -= static_cast<std::size_t>(n);
  }
  return true;
}

/// Reads `count` bytes and appends them to `to`. `to` grows only as bytes
/// arrive, because the other end may announce more bytes than it sends. Returns
/// false if fewer than `count` bytes arrive.
inline bool read_text(int fd, std::size_t count, std::string& to) {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (count > 0) {
    const std::size_t done = to.size();
    const std::size_t step = std::min(count, kStep);
    to.resize(done + step);
    if (!read_bytes(fd, to.data() + done, step)) {
      return false;
    }
    count -= step;
  }
  return true;
}

}  // namespace detail

/// Waits for the next packet; returns nothing at the end of the stream or for
/// malformed data.
inline std::optional<Packet> read_packet(int fd) {
  constexpr std::size_t kMaxHeadBytes = 64;
  constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
  std::string head;
  for (char c = 0; detail::read_bytes(fd, &c, 1) && c != '\n';) {
    head += c;
    if (head.size() > kMaxHeadBytes) {
      return std::nullopt;
    }
  }
  const auto space = head.rfind(' ');
  if (space == std::string::npos) {
    return std::nullopt;
  }
  const char* const digits = head.data() + space + 1;
  std::size_t length = 0;
  const auto [end, error] =
      std::from_chars(digits, head.data() + head.size(), length);
  if (error != std::errc() || end != head.data() + head.size() ||
      length > kMaxTextBytes) {
    return std::nullopt;
  }
  Packet packet{head.substr(0, space), ""};
  if (!detail::read_text(fd, length, packet.text)) {
    return std::nullopt;
  }
  return packet;
}

inline std::string packet_bytes(
    const std::string& kind, const std::string& text) {
  return kind + ' ' + std::to_string(text.size()) + '\n' + text;
}

/// Writes all of `bytes`. Returns false after an error, for example if the
/// other end of the pipe is closed.
inline bool write_bytes(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) {
      return false;
    }
    done += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  return true;
}

}  // namespace accelerate::jupyter
