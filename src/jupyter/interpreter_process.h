// SPDX-License-Identifier: Apache-2.0
// The interpreter, as the kernel's child.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/unique_fd.h"
#include "jupyter/interpreter_command.h"
#include "jupyter/link.h"

namespace accelerate::jupyter {

/// Started by the constructor, killed with all it started by the destructor.
class InterpreterProcess {
 public:
  explicit InterpreterProcess(const InterpreterSetup& setup);
  InterpreterProcess(const InterpreterProcess&) = delete;
  InterpreterProcess& operator=(const InterpreterProcess&) = delete;
  ~InterpreterProcess();

  /// For poll: what a cell prints, and the end of a cell.
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }
  int replies() const { return replies_.get(); }

  /// Hands over a cell. The reply is that of `read_reply`.
  void run(const std::string& code);
  /// The reply to the last cell, when `replies` is readable; nothing when the
  /// interpreter has died. Those to the set-up are read over.
  std::optional<Packet> read_reply();
  /// Whether the reply just read was the set-up's.
  bool is_ready() const { return waiting_for_ == 0; }

  void interrupt();
  /// Ends it now.
  void kill();
  /// How it ended: `killed by signal 11 (SEGV)`. Waits for the end.
  std::string describe_end();

 private:
  void send(const std::string& word, const std::string& text);

  pid_t process_ = 0;
  UniqueFd requests_;
  UniqueFd replies_;
  UniqueFd output_;
  UniqueFd errors_;
  int waiting_for_ = 0;  // Replies to the set-up.
};

}  // namespace accelerate::jupyter
