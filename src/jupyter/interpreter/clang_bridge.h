// SPDX-License-Identifier: Apache-2.0
// Calls the interpreter inside clang-repl through the symbols that clang-repl
// exports.
//
// Without changes, clang-repl reads its input line by line, cannot use a
// precompiled header, and exits at the first exception. This library is loaded
// into the clang-repl process and takes control before clang-repl runs its
// first line.
#pragma once

#include <string>

namespace accelerate::jupyter {

struct ParsedCell {
  /// The code to execute; null if the cell contains no code to execute or if it
  /// does not compile.
  void* unit = nullptr;
  bool failed = false;
  /// Errors and warnings from the compiler.
  std::string messages;
};

class ClangBridge {
 public:
  /// `interpreter` points to a `clang::Interpreter`. If this process is not
  /// clang-repl 19, prints a message and exits.
  explicit ClangBridge(void* interpreter);

  ParsedCell parse(const std::string& code);
  /// Runs `unit`, the code of a parsed cell. Returns the linker's error, or an
  /// empty string if there is no error. Exceptions thrown by the cell propagate
  /// to the caller.
  std::string execute(void* unit);
  /// Removes the definitions of the previous cell.
  void undo();

 private:
  void enable_precompiled_header();

  void* interpreter_;
};

}  // namespace accelerate::jupyter
