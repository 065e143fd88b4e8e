// SPDX-License-Identifier: Apache-2.0
// Compiles single-file programs and caches the result.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/toolchain.h"

namespace accelerate {

struct CompileOptions {
  Toolchain toolchain;
  /// If not empty, used instead of `toolchain.compiler`.
  std::string compiler;
  std::vector<std::string> extra_flags;
  std::string search_path;  ///< The PATH for finding the compiler.
  /// The folder for compiled programs. Must be accessible only to this user,
  /// because the launcher runs programs from it.
  std::filesystem::path cache_folder;
  /// Prints status messages for the user, because compiling takes a while.
  std::function<void(const std::string&)> print_status;
};

/// Returns the path of the executable compiled from `source`. Compiles only if
/// `source`, a non-system header that `source` includes, the flags or the
/// installation has changed since the last compilation.
///
/// Concurrent launches of the same `source` compile it only once. Throws
/// `ConfigError` if `source` does not compile; the compiler has then already
/// printed its errors. Throws `IoError` if other users can write to the cache.
std::filesystem::path compile_program(
    const std::filesystem::path& source, const CompileOptions& options);

/// Returns the path where `compile_program` puts the executable for the current
/// content of `source`. Does not compile.
std::filesystem::path compiled_path(
    const std::filesystem::path& source, const CompileOptions& options);

}  // namespace accelerate
