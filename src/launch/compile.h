// SPDX-License-Identifier: Apache-2.0
// Single-file programs, compiled once.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/toolchain.h"

namespace accelerate {

struct CompileOptions {
  Toolchain toolchain;
  std::string compiler;  ///< Overrides the toolchain's.
  std::vector<std::string> extra_flags;
  std::string search_path;  ///< PATH, to find the compiler.
  std::filesystem::path cache_folder;
  /// Told before work begins, for people: compiling takes a while.
  std::function<void(const std::string&)> say;
};

/// Returns the path of the executable made from `source`, compiling only when
/// neither the file, nor a header it includes from beside it, nor the flags,
/// nor the installation has changed.
///
/// Two launches of the same file at once compile it once. Throws
/// `ConfigError` after the compiler has printed what is wrong.
std::filesystem::path compile_program(
    const std::filesystem::path& source, const CompileOptions& options);

/// Where `compile_program` puts the executable of `source` as it is now.
/// Compiles nothing.
std::filesystem::path compiled_path(
    const std::filesystem::path& source, const CompileOptions& options);

}  // namespace accelerate
