// SPDX-License-Identifier: Apache-2.0
// A single source as the program of a launch.
#pragma once

#include "cli/command.h"
#include "config/settings.h"
#include "launch/compile.h"

namespace accelerate {

/// How this installation compiles programs.
Toolchain installed_toolchain(const CommandContext& context);

/// How this installation compiles it, and where the result is kept.
/// `context` must outlive the result, which prints through its console.
CompileOptions compile_options(
    const Settings& settings, CommandContext& context);

}  // namespace accelerate
