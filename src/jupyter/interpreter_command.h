// SPDX-License-Identifier: Apache-2.0
// Starts an interpreter: clang-repl 19 with this library and the precompiled
// header.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "launch/toolchain.h"

namespace accelerate::jupyter {

struct InterpreterSetup {
  Environment environment;
  /// The path of this program, the Jupyter kernel. Other files of the
  /// installation are found relative to this path.
  std::string kernel;
  Toolchain toolchain;
  /// Whether cells use plain C++, without LibTorch and this library.
  bool plain = false;
};

/// Returns the path of clang-repl 19. If clang-repl is missing, throws
/// `UnsupportedError` that names the package to install.
std::filesystem::path find_clang_repl(const Environment& environment);
/// Returns the path of clang++ 19, the compiler that matches clang-repl.
std::filesystem::path find_clang(const Environment& environment);

/// Returns the flags for compiling cells.
std::vector<std::string> cell_flags(const InterpreterSetup& setup);

/// Returns the path of the precompiled header. If the file does not exist,
/// prints a message to stderr and compiles the header. This takes about half a
/// minute, once per installation.
///
/// Throws `ConfigError` if the compiler fails or takes longer than `timeout`,
/// and `IoError` if another process is still compiling the header after
/// `timeout`, or if other users can write to the cache.
std::filesystem::path precompiled_header(
    const InterpreterSetup& setup,
    std::chrono::milliseconds timeout = std::chrono::minutes(15));

/// Returns the path of the precompiled header, or nothing if the file does not
/// exist. Never compiles and never waits. Throws `IoError` if other users can
/// write to the cache.
std::optional<std::filesystem::path> existing_header(
    const InterpreterSetup& setup);

/// Returns the text of the `setup` request; see `interpreter_protocol.h`.
std::string setup_text(const InterpreterSetup& setup);

/// Replaces this process with an interpreter that reads requests from the
/// descriptor `kRequests`. Throws if the interpreter cannot be started.
[[noreturn]] void exec_interpreter(const InterpreterSetup& setup);

}  // namespace accelerate::jupyter
