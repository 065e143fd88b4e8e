// SPDX-License-Identifier: Apache-2.0
// How this installation compiles a single-file program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace accelerate {

/// Read from `share/accelerate/toolchain.json` beside the binary's folder,
/// which the build writes.
struct Toolchain {
  std::string path;  ///< Of the file; empty when there is none.
  std::string compiler;
  std::vector<std::string> flags;
  std::vector<std::string> link_flags;
  /// Headers worth precompiling.
  std::vector<std::string> headers;
  /// Files whose change makes compiled programs stale.
  std::vector<std::string> libraries;
  std::string torch_version;
};

/// Finds the description for the binary at `executable`; `override_path` goes
/// first. Throws `ConfigError` when an override cannot be read; without any
/// file the result has no compiler.
Toolchain find_toolchain(
    const std::string& executable,
    const std::optional<std::string>& override_path);

}  // namespace accelerate
