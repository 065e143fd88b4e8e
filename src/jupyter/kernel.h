// SPDX-License-Identifier: Apache-2.0
// A Jupyter kernel for C++. The kernel answers requests from a client and runs
// cells in a separate interpreter process, so that the kernel survives a crash
// of the interpreter.
#pragma once

#include <memory>
#include <string>

#include "jupyter/interpreter_command.h"
#include "jupyter/sockets.h"

namespace accelerate::jupyter {

class Kernel {
 public:
  Kernel(const Connection& connection, InterpreterSetup setup);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel();

  /// Runs until the client requests a shutdown. Returns the exit code.
  int run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate::jupyter
