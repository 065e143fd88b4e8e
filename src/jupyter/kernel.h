// SPDX-License-Identifier: Apache-2.0
// A Jupyter kernel for C++: answers a client, and runs cells in an interpreter
// that may crash without it.
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

  /// Until the client asks for the end. Returns the exit code.
  int run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate::jupyter
