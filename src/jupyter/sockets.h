// SPDX-License-Identifier: Apache-2.0
// The five sockets of a Jupyter kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "jupyter/message.h"

namespace accelerate::jupyter {

/// The content of the connection file that a client passes to its kernel.
struct Connection {
  std::string transport = "tcp";
  std::string ip = "127.0.0.1";
  std::string key;
  int shell_port = 0;
  int iopub_port = 0;
  int stdin_port = 0;
  int control_port = 0;
  int hb_port = 0;
};

/// Reads a connection file. Throws a `ConfigError` that names the file and the
/// field if the file is malformed.
Connection read_connection(const std::filesystem::path& path);

/// The maximum size of a frame from a client, and the maximum number of frames
/// in a message. A larger frame ends the sender's connection before memory is
/// allocated for the frame.
constexpr std::int64_t kMaxFrameBytes = std::int64_t{64} << 20;
constexpr std::size_t kMaxFrames = 32;

enum class Channel { shell, control, input, heartbeat, iopub };

/// Owns the five sockets of a kernel. Not thread-safe.
class Sockets {
 public:
  /// Opens all sockets. Throws `IoError` if a port is in use.
  explicit Sockets(const Connection& connection);
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets();

  /// Returns the ZeroMQ socket, for `zmq_poll`.
  void* handle(Channel channel) const;
  /// Returns the next message on `channel`, or nothing if no message has
  /// arrived. Does not wait. Drops a message that has a wrong signature or too
  /// many frames, or that was received before, and prints a warning to stderr.
  std::optional<Message> receive(Channel channel);
  void send(Channel channel, const Message& message);
  /// Sends a received heartbeat back to the client.
  void echo_heartbeat();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate::jupyter
