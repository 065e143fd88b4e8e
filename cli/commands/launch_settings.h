// SPDX-License-Identifier: Apache-2.0
// What `launch` and `explain` share: options, and how settings come together.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/command.h"
#include "config/settings.h"
#include "launch/hardware.h"

namespace accelerate {

/// Every flag of the registry.
std::vector<ArgOption> launch_options();

struct LaunchSettings {
  Settings settings;  ///< Completed.
  Hardware hardware;
  std::vector<std::filesystem::path> files;  ///< Those that were read.
};

/// Files, environment and flags, in that order, then what was found.
LaunchSettings gather_settings(
    const ParsedArgs& arguments, const CommandContext& context);

}  // namespace accelerate
