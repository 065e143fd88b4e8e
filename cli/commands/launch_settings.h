// SPDX-License-Identifier: Apache-2.0
// Options and settings that `launch` and `explain` share.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/command.h"
#include "config/settings.h"
#include "launch/hardware.h"

namespace accelerate {

/// Returns a command-line option for each setting that has a flag.
std::vector<ArgOption> launch_options();

struct LaunchSettings {
  Settings settings;  ///< Completed by `complete_settings`.
  Hardware hardware;
  /// The configuration files that were read.
  std::vector<std::filesystem::path> files;
};

/// Applies configuration files, environment variables and flags, in that order.
/// Then fills in the settings that are still unset with `complete_settings`.
LaunchSettings gather_settings(
    const ParsedArgs& arguments, const CommandContext& context);

}  // namespace accelerate
