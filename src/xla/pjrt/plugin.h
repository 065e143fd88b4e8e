// SPDX-License-Identifier: Apache-2.0
// A PJRT plugin: a shared library that compiles and runs XLA programs on one
// kind of device.
#pragma once

#include <memory>
#include <string>

#include "xla/pjrt/plugin_differences.h"

namespace accelerate::xla {

class PluginApi;

/// A loaded plugin. It is never unloaded: its threads outlive every client.
/// Thread-safe.
class Plugin {
 public:
  /// Loads the plugin at `path` and checks its version.
  ///
  /// Throws `ArgumentError` for a relative path, which the loader would search
  /// for in folders that other users may be able to write to. Throws
  /// `UnsupportedError` if the file cannot be loaded, is not a plugin, or has a
  /// different version.
  explicit Plugin(const std::string& path);

  const std::string& path() const { return path_; }
  PluginKind kind() const { return kind_; }
  /// Returns the version of the C interface, for example `0.81`.
  std::string api_version() const;

  /// Returns the functions of the plugin, for the classes in this folder.
  const std::shared_ptr<const PluginApi>& api() const { return api_; }

 private:
  std::string path_;
  PluginKind kind_;
  std::shared_ptr<const PluginApi> api_;
};

}  // namespace accelerate::xla
