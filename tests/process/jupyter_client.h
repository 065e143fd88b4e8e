// SPDX-License-Identifier: Apache-2.0
// A Jupyter client in a few lines: starts a kernel, sends, waits within limits.
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

/// What a client saw of one cell.
struct CellResult {
  Json reply;
  std::string output;
  std::string errors;
  /// Of the `error` message; null when there was none.
  Json error;
};

class JupyterClient {
 public:
  /// Starts the kernel with its sockets in a folder of its own.
  explicit JupyterClient(const std::vector<std::string>& options);
  JupyterClient(const JupyterClient&) = delete;
  JupyterClient& operator=(const JupyterClient&) = delete;
  ~JupyterClient();

  /// Throws when a wait lasts longer than `patience`.
  std::chrono::seconds patience{280};

  pid_t kernel() const { return kernel_; }
  const std::filesystem::path& folder() const { return folder_; }

  Json ask(const std::string& type, Json content, bool control = false);
  CellResult run(const std::string& code);
  /// Sends a cell without waiting; `finish` waits.
  void begin(const std::string& code);
  CellResult finish();
  /// Waits until the cell that runs has printed `text`.
  /// All that it has printed then.
  std::string await_output(const std::string& text);
  /// Sends a request that is signed with another key.
  void send_forged(const std::string& code);
  bool heartbeat();
  /// Waits for the kernel's end; its status.
  std::optional<int> wait_for_end(std::chrono::seconds limit);

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
  std::string request_;  // The id of the cell that runs.
  CellResult result_;
  bool idle_ = true;
};

}  // namespace accelerate::jupyter
