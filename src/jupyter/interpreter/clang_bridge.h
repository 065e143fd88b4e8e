// SPDX-License-Identifier: Apache-2.0
// The interpreter inside clang-repl, called by the names its library exports.
//
// clang-repl itself reads lines, cannot use a precompiled header and ends at
// the first exception. This library is loaded into its process and takes over
// when it is about to run its first line.
#pragma once

#include <string>

namespace accelerate::jupyter {

struct ParsedCell {
  /// What to execute; null when there is nothing, or after an error.
  void* unit = nullptr;
  bool failed = false;
  /// The compiler's messages: errors, or warnings.
  std::string messages;
};

class ClangBridge {
 public:
  /// `interpreter` is the `clang::Interpreter` that was called. Ends the
  /// process with a message when this is not the clang we know.
  explicit ClangBridge(void* interpreter);

  ParsedCell parse(const std::string& code);
  /// Runs what was parsed. Returns what the linker says, empty when all is
  /// well. Lets exceptions of the cell through.
  std::string execute(void* unit);
  /// Forgets the cell before.
  void undo();

 private:
  void enable_precompiled_header();

  void* interpreter_;
};

}  // namespace accelerate::jupyter
