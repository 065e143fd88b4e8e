// SPDX-License-Identifier: Apache-2.0
// Backends in libraries of their own, opened when they are asked for.
//
// `libaccelerate_<name>.so` lies beside libaccelerate.so and hands out one
// table. So libaccelerate.so needs neither MPI nor CUDA, and one build runs on
// hosts with and without them.
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

/// Which processes a backend shall join.
struct PluginGroupOptions {
  /// Stands in error texts.
  std::string group_name = "world";
  /// This process among all processes of the run.
  int process_index = 0;
  int num_processes = 1;
  /// The members by process index; their order gives the ranks of the group.
  /// Empty: all processes.
  std::vector<int> members = {};
  /// How long an operation waits for the other members.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Where members can meet; null for backends that bring their own way.
  c10d::Store* store = nullptr;
};

/// Changes whenever `BackendPlugin` or `PluginGroupOptions` does.
inline constexpr std::uint32_t kPluginAbi = 1;

/// What a plugin library hands out.
///
/// `abi` and `torch_version` come first and are plain data: they are compared
/// before anything else is touched. Errors then cross the border as exceptions
/// of `accelerate/error.h`. A status with a text would not be safer: the
/// `c10d::Backend` behind the table is a C++ object that throws through the
/// same border, and the version check is what makes both sound.
struct BackendPlugin {
  std::uint32_t abi;
  const char* torch_version;
  const char* name;
  /// Returns a backend that the caller owns (one reference).
  ///
  /// Collective over the members.
  c10d::Backend* (*create)(const PluginGroupOptions& options);
};

/// The one symbol of a plugin library: `extern "C"`, of this type.
using BackendPluginEntry = const BackendPlugin* (*)();
inline constexpr const char* kPluginEntryName = "accelerate_backend_plugin";

/// Opens `libaccelerate_<name>.so` in `folder` (empty: where libaccelerate.so
/// lies). The library stays open until the process ends.
///
/// Throws `UnsupportedError` when there is none, when it cannot be loaded, and
/// when it was built for another accelerate or LibTorch.
ACCELERATE_API const BackendPlugin& load_backend_plugin(
    const std::string& name, const std::string& folder = {});

/// Whether `load_backend_plugin(name)` would succeed.
ACCELERATE_API bool has_backend_plugin(const std::string& name);

/// Opens the plugin and creates a backend; the caller owns one reference.
///
/// Collective over the members. Throws what `load_backend_plugin` and the
/// plugin throw.
[[nodiscard]] ACCELERATE_API c10d::Backend* create_plugin_backend(
    const std::string& name, const PluginGroupOptions& options);

}  // namespace accelerate
