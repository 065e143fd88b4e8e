// SPDX-License-Identifier: Apache-2.0
// The five sockets a Jupyter client opens.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "jupyter/message.h"

namespace accelerate::jupyter {

/// The connection file a client hands to its kernel.
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

/// Throws `ConfigError` naming file and field when it is not one.
Connection read_connection(const std::filesystem::path& path);

enum class Channel { shell, control, input, heartbeat, iopub };

/// Owns the sockets. Not thread-safe.
class Sockets {
 public:
  /// Throws `IoError` when a port is taken.
  explicit Sockets(const Connection& connection);
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets();

  /// The ZeroMQ socket, for `zmq_poll`.
  void* handle(Channel channel) const;
  /// The next message there, without waiting. One with a wrong signature is
  /// dropped, and said on the standard error.
  std::optional<Message> receive(Channel channel);
  void send(Channel channel, const Message& message);
  /// Gives what came back to whoever asked whether we live.
  void echo_heartbeat();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate::jupyter
