// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are loaded on demand.
//
// A plugin exports one function without arguments, which returns a pointer to a
// table. The table starts with the versions of the plugin, which are compared
// before anything else in the table is used.
//
//     const Plugin plugin(
//         "/opt/libaccelerate_mpi.so",
//         {.feature = "the `mpi` backend", .entry =
//         "accelerate_backend_plugin"});
//     const auto& table = plugin.table<BackendPlugin>();
//     plugin.check_versions({{"plugin interface", table.abi, kPluginAbi}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace accelerate {

/// The purpose of a plugin, and the name of the function that it exports.
struct PluginKind {
  /// The feature that needs the plugin, such as "the `mpi` backend". Error
  /// messages begin with this text.
  std::string feature;
  std::string entry;
  /// What to do if the library cannot be loaded.
  std::string hint;
};

/// A version that the plugin and this library must have in common.
struct PluginVersion {
  std::string name;
  std::string of_plugin;
  std::string required;
};

/// A library that was loaded. It stays loaded until the process exits, because
/// its threads and exit handlers may outlive every object.
class Plugin {
 public:
  /// Loads the library at `path`. Never searches other folders for it. Throws
  /// `UnsupportedError` if the library cannot be loaded.
  Plugin(const std::filesystem::path& path, PluginKind kind);

  /// Calls the exported function. Throws `UnsupportedError` if there is no such
  /// function, or if it returns null.
  template <typename Table>
  const Table& table() const {
    const auto entry = reinterpret_cast<const Table* (*)()>(find_entry());
    const Table* const table = entry();
    if (table == nullptr) {
      throw_not_a_plugin();
    }
    return *table;
  }

  /// Throws `UnsupportedError` for the first version that differs.
  void check_versions(const std::vector<PluginVersion>& versions) const;

 private:
  void* find_entry() const;
  [[noreturn]] void throw_not_a_plugin() const;

  std::filesystem::path path_;
  PluginKind kind_;
  void* handle_;
};

/// Returns the folder of the library or program that contains `address`.
std::filesystem::path library_folder(const void* address);

}  // namespace accelerate
