// SPDX-License-Identifier: Apache-2.0
// The interpreter as a child process of the Jupyter kernel.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "jupyter/interpreter_command.h"
#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {

/// An interpreter in a child process. The constructor starts the child process;
/// the destructor kills it and all processes that it started.
class InterpreterProcess {
 public:
  explicit InterpreterProcess(const InterpreterSetup& setup);
  InterpreterProcess(const InterpreterProcess&) = delete;
  InterpreterProcess& operator=(const InterpreterProcess&) = delete;
  ~InterpreterProcess();

  /// File descriptors to poll: `output` is stdout of the cell, `errors` is
  /// stderr of the cell, and `replies` carries the interpreter's replies.
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  int replies() const { return replies_.get(); }

  /// Sends the cell `code` to the interpreter. Does not wait for the result;
  /// `read_reply` returns the reply.
  void run(const std::string& code);
  /// Returns the next reply; call this when `replies` is readable. Replies to
  /// the setup requests have the kind `started`. Returns nothing if the
  /// interpreter died.
  std::optional<Packet> read_reply();
  /// Returns whether the interpreter has answered all setup requests.
  bool is_ready() const { return pending_setup_replies_ == 0; }

  void interrupt();
  /// Kills the interpreter and its children immediately.
  void kill();
  /// Waits for the interpreter to exit. Returns how the interpreter exited,
  /// such as `killed by signal 11 (SEGV)`.
  std::string describe_exit();

 private:
  void send(const std::string& kind, const std::string& text);

  pid_t process_ = 0;
  UniqueFd requests_;
  UniqueFd replies_;
  UniqueFd output_;
  UniqueFd errors_;
  int pending_setup_replies_ = 0;
};

}  // namespace accelerate::jupyter
