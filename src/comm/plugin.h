// SPDX-License-Identifier: Apache-2.0
// Backends in separate libraries that are loaded on demand.
//
// Each of these backends is a library `libaccelerate_<name>.so` in the same
// folder as libaccelerate.so. The library exports one function, which returns a
// `BackendPlugin`. libaccelerate.so therefore needs neither MPI nor CUDA, and
// one build runs on machines with and without MPI and CUDA.
//
//     PluginGroupOptions options;
//     options.process_index = 1;
//     options.num_processes = 3;
//     c10d::Backend* backend = create_plugin_backend("mpi", options);
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

/// The process group that a backend connects.
struct PluginGroupOptions {
  /// The group's name in error messages.
  std::string group_name = "world";
  /// The index of this process among all processes in the run.
  int process_index = 0;
  int num_processes = 1;
  /// The process indices of the members, in rank order. Empty: all processes.
  std::vector<int> members = {};
  /// How long an operation waits for the other members.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The store for the rendezvous of the members; null for backends that need
  /// no store.
  c10d::Store* store = nullptr;
};

/// The version of the plugin interface. Must change whenever `BackendPlugin` or
/// `PluginGroupOptions` changes.
inline constexpr std::uint32_t kPluginAbi = 1;

/// The table that the function exported by a plugin library returns.
///
/// `abi` and `torch_version` come first and are plain data: they are compared
/// before anything else is used. Errors are reported as the exceptions declared
/// in `accelerate/error.h`. Status codes would not be safer: the
/// `c10d::Backend` behind the table is a C++ object that throws across the same
/// boundary, and the version check makes exceptions safe.
struct BackendPlugin {
  std::uint32_t abi;
  const char* torch_version;
  const char* name;
  /// Returns a backend that the caller owns (one reference).
  ///
  /// Collective over the members.
  c10d::Backend* (*create)(const PluginGroupOptions& options);
};

/// The type of the only function that a plugin library exports. The function is
/// named `accelerate_backend_plugin` and has C linkage.
using BackendPluginEntry = const BackendPlugin* (*)();
inline constexpr const char* kPluginEntryName = "accelerate_backend_plugin";

/// Loads `libaccelerate_<name>.so` from `folder` (empty: the folder of
/// libaccelerate.so). The library stays loaded until the process exits.
///
/// Throws `UnsupportedError` if the library is missing, cannot be loaded, or
/// was built for another version of accelerate or LibTorch.
ACCELERATE_API const BackendPlugin& load_backend_plugin(
    const std::string& name, const std::string& folder = {});

/// Whether `load_backend_plugin(name)` would succeed.
ACCELERATE_API bool has_backend_plugin(const std::string& name);

/// Loads the plugin and creates a backend; the caller owns one reference.
///
/// Collective over the members. Throws the errors of `load_backend_plugin` and
/// of the plugin's `create`.
[[nodiscard]] ACCELERATE_API c10d::Backend* create_plugin_backend(
    const std::string& name, const PluginGroupOptions& options);

}  // namespace accelerate
