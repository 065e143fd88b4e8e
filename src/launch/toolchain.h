// SPDX-License-Identifier: Apache-2.0
// Describes how this installation compiles a single-file program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// The content of `../share/accelerate/toolchain.json`, relative to the folder
/// of the running binary. The build writes this file.
struct Toolchain {
  std::string path;  ///< Path of the file; empty if there is no file.
  std::string compiler;
  std::vector<std::string> flags;
  std::vector<std::string> link_flags;
  /// Headers to precompile.
  std::vector<std::string> headers;
  /// Programs are recompiled when one of these files changes.
  std::vector<std::string> libraries;
  std::string torch_version;
};

/// Reads the file `override_path` if it is set, else the toolchain file of the
/// binary at `executable`. If that binary has no toolchain file, `compiler` in
/// the result is empty. Throws `ConfigError` if `override_path` does not exist,
/// or if the file cannot be read.
Toolchain find_toolchain(
    const std::string& executable,
    const std::optional<std::string>& override_path);

}  // namespace accelerate
