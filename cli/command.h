// SPDX-License-Identifier: Apache-2.0
// The commands of the `accelerate` binary.
#pragma once

#include <string>
#include <vector>

#include "cli/args.h"
#include "cli/console.h"
#include "config/environment.h"

namespace accelerate {

/// The objects that commands use to print, ask questions and find files.
struct CommandContext {
  Console& console;
  Environment environment;
  /// The path of this binary, for finding other files of the installation.
  std::string executable;
};

struct Command {
  const CommandInfo& (*info)();
  /// Runs the command. Returns the exit code, or throws an `Error`.
  int (*run)(const ParsedArgs& arguments, CommandContext& context);
};

const std::vector<Command>& all_commands();
const Command* find_command(std::string_view name);
std::string version_text();

}  // namespace accelerate
