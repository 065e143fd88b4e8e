// SPDX-License-Identifier: Apache-2.0
// A minimal Jupyter client: starts a kernel, sends requests, waits with a
// timeout.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "accelerate/json.h"
#include "jupyter/message.h"

namespace accelerate::jupyter {

/// The output and reply of one cell.
struct CellResult {
  Json reply;
  std::string output;
  std::string errors;
  /// The contents of `display_data` and `update_display_data` messages, with
  /// their types as `type`.
  std::vector<Json> displays;
  /// The content of the `error` message; null if there was no such message.
  Json error;
};

class JupyterClient {
 public:
  /// Starts the kernel with its sockets in a new folder.
  explicit JupyterClient(const std::vector<std::string>& options);
  JupyterClient(const JupyterClient&) = delete;
  JupyterClient& operator=(const JupyterClient&) = delete;
  ~JupyterClient();

  /// The time after which a wait throws.
  std::chrono::seconds timeout{280};

  pid_t kernel() const { return kernel_; }
  const std::filesystem::path& folder() const { return folder_; }

  Json ask(const std::string& type, Json content, bool control = false);
  CellResult run(const std::string& code);
  /// Sends a cell without waiting for the reply; `finish` waits for the reply.
  void begin(const std::string& code);
  CellResult finish();
  /// Waits until the running cell has printed `text`; returns all of its output
  /// so far.
  std::string await_output(const std::string& text);
  /// Sends a request signed with a wrong key.
  void send_forged(const std::string& code);
  bool heartbeat();
  /// Waits for the kernel to exit. Returns its status, or nothing after
  /// `limit`.
  std::optional<int> wait_for_exit(std::chrono::seconds limit);

 private:
  void connect();
  Message receive(void* socket);
  void take_published(const Message& message);

  std::filesystem::path folder_;
  pid_t kernel_ = 0;
  void* context_ = nullptr;
  void* shell_ = nullptr;
  void* control_ = nullptr;
  void* iopub_ = nullptr;
  void* heartbeat_ = nullptr;
  std::string session_;
  std::string request_;  // The id of the running cell.
  CellResult result_;
  bool idle_ = true;
};

}  // namespace accelerate::jupyter
