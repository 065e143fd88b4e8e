// SPDX-License-Identifier: Apache-2.0
// Compile options for a launch whose program is a single source file.
#pragma once

#include "cli/command.h"
#include "config/settings.h"
#include "launch/compile.h"

namespace accelerate {

/// Returns the toolchain with which this installation compiles programs.
Toolchain installed_toolchain(const CommandContext& context);

/// Returns the options for `compile_program`, from the settings and the
/// toolchain of this installation. `print_status` in the returned options
/// prints to the console of `context`, so `context` must outlive these options.
CompileOptions compile_options(
    const Settings& settings, CommandContext& context);

}  // namespace accelerate
