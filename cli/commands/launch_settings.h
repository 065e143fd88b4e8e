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

/// With a hostfile, hands the job to `mpirun`, which becomes the one process we
/// watch: ranks and machines are its business, our settings travel with it.
void use_mpirun(
    Settings& settings,
    std::vector<std::string>& words,
    const Environment& environment);

}  // namespace accelerate
