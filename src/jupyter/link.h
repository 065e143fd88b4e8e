// SPDX-License-Identifier: Apache-2.0
// What the kernel and its interpreter say to each other: `<word> <bytes>\n`,
// then as many bytes.
//
// To the interpreter, at `kRequests`:
//   setup    lines: accelerate, the kernel's program, libraries to load
//   prelude  code that no worker needs to be told of: it has it already
//   cell     code to run; the reply comes when it has ended
//   replay   a cell that a worker repeats in silence
//   target 2 a cell that a worker repeats up to its third launch
// From it, at `kReplies`: ok, compile, link, exception or interrupted, and what
// there is to say about it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

namespace accelerate::jupyter {

inline constexpr int kRequests = 3;
inline constexpr int kReplies = 4;
// The terminal of workers, and what clears a line of it.
inline constexpr int kScreenColumns = 100;
inline constexpr std::string_view kClearLine = "\r\x1b[K";

struct Packet {
  std::string word;
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

}  // namespace detail

/// Waits for the next packet; nothing at the end, or when what comes is none.
inline std::optional<Packet> read_packet(int fd) {
  constexpr std::size_t kLongestHead = 64;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::string head;
  for (char c = 0; detail::read_bytes(fd, &c, 1) && c != '\n';) {
    head += c;
    if (head.size() > kLongestHead) {
      return std::nullopt;
    }
  }
  const auto space = head.rfind(' ');
  if (space == std::string::npos) {
    return std::nullopt;
  }
  Packet packet;
  packet.word = head.substr(0, space);
  packet.text.resize(std::min<std::size_t>(
      std::strtoull(head.c_str() + space, nullptr, 10), kMost));
  if (!detail::read_bytes(fd, packet.text.data(), packet.text.size())) {
    return std::nullopt;
  }
  return packet;
}

inline std::string packet_bytes(
    const std::string& word, const std::string& text) {
  return word + ' ' + std::to_string(text.size()) + '\n' + text;
}

/// False when nobody reads any more.
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
