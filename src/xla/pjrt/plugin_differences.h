// SPDX-License-Identifier: Apache-2.0
// Everything that differs between PJRT plugins: the environment that must be
// set before a plugin is loaded, and the options of its client.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate::xla {

enum class PluginKind : std::uint8_t { cpu, cuda, tpu, other };

/// Guesses the kind of a plugin from its file name, because a plugin reports
/// its platform only after it has been loaded.
PluginKind plugin_kind(const std::string& path);

/// An integer option for the creation of a PJRT client.
struct ClientOption {
  std::string name;
  std::int64_t value = 0;
};

/// Returns the options that give a client `device_count` devices. Empty if the
/// plugin does not let the caller choose; the client then uses all devices of
/// the machine.
std::vector<ClientOption> client_options(
    PluginKind kind, std::int64_t device_count);

/// Adds to XLA_FLAGS the flags that this kind of plugin needs, except flags
/// that the user has set. Sets TF_CPP_MIN_LOG_LEVEL, unless the user has set
/// it, so that plugins log only warnings and errors. Plugins read both
/// variables while they are loaded.
void prepare_environment(PluginKind kind);

/// Returns XLA_FLAGS as the plugin sees it. It is part of the key of cached
/// programs.
std::string xla_flags();

}  // namespace accelerate::xla
