// SPDX-License-Identifier: Apache-2.0
// How an interpreter is started: clang-repl 19, our library inside it, and the
// precompiled header.
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
  /// This program; the rest of the installation lies around it.
  std::string kernel;
  Toolchain toolchain;
  /// Without LibTorch and this library: plain C++.
  bool plain = false;
};

/// Throws `UnsupportedError` with what to install where clang-repl 19 is
/// missing.
std::filesystem::path find_clang_repl(const Environment& environment);
/// The compiler of the same release.
std::filesystem::path find_clang(const Environment& environment);

/// The flags cells are compiled with, the compiler's own excepted.
std::vector<std::string> cell_flags(const InterpreterSetup& setup);

/// The precompiled header, made if need be; that takes half a minute, once
/// for an installation, and is said on the standard error.
///
/// Throws `ConfigError` when the headers do not compile, or not within
/// `longest`; `IoError` when another process is at it for that long.
std::filesystem::path precompiled_header(
    const InterpreterSetup& setup,
    std::chrono::milliseconds longest = std::chrono::minutes(15));

/// The same where it has been made already; waits for nobody.
std::optional<std::filesystem::path> existing_header(
    const InterpreterSetup& setup);

/// The first request of an interpreter: see `link.h`.
std::string setup_text(const InterpreterSetup& setup);

/// Turns this process into an interpreter that reads requests at
/// `kRequests`. Returns only by exception.
[[noreturn]] void become_interpreter(const InterpreterSetup& setup);

}  // namespace accelerate::jupyter
