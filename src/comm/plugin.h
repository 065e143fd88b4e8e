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
//     const auto transport = create_plugin_transport("mpi", options);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/export.h"
#include "comm/transport.h"
#include "comm/wait_limits.h"

namespace accelerate {

/// The process group for which a plugin creates a transport.
struct PluginGroupOptions {
  /// The index of this process among all processes in the run.
  int process_index = 0;
  int num_processes = 1;
  /// The process indices of the members, in rank order. If empty, all processes
  /// are members.
  std::vector<int> members = {};
  WaitLimits limits = {};
  /// Returns the ranks of the group that are known to have exited. This
  /// function may be empty.
  std::function<std::vector<int>()> exited_ranks = {};
};

/// The version of the plugin interface. Must change whenever `BackendPlugin` or
/// `PluginGroupOptions` changes.
inline constexpr std::uint32_t kPluginAbi = 2;

/// The table returned by the function that a plugin library exports.
///
/// `abi` and `torch_version` come first and are plain data, because they are
/// compared before anything else is used. The functions report errors as
/// exceptions.
struct BackendPlugin {
  std::uint32_t abi;
  const char* torch_version;
  const char* name;
  /// Returns a transport that the caller owns.
  ///
  /// Collective over the members.
  Transport* (*create)(const PluginGroupOptions& options);
};

/// The only function that a plugin library exports, with C linkage. It takes no
/// arguments and returns a `const BackendPlugin*`.
inline constexpr const char* kPluginEntryName = "accelerate_backend_plugin";

/// Loads `libaccelerate_<name>.so` from `folder`, or from the folder of
/// libaccelerate.so if `folder` is empty. The library stays loaded until the
/// process exits.
///
/// Throws `UnsupportedError` if the library is missing, cannot be loaded, or
/// was built for another version of accelerate or LibTorch.
ACCELERATE_API const BackendPlugin& load_backend_plugin(
    const std::string& name, const std::string& folder = {});

/// Returns whether `load_backend_plugin(name)` would succeed.
ACCELERATE_API bool has_backend_plugin(const std::string& name);

/// Loads the plugin and creates a transport.
///
/// Collective over the members. Throws the errors of `load_backend_plugin` and
/// of the plugin's `create`.
[[nodiscard]] ACCELERATE_API std::unique_ptr<Transport> create_plugin_transport(
    const std::string& name, const PluginGroupOptions& options);

}  // namespace accelerate
