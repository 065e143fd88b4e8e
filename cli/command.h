// SPDX-License-Identifier: Apache-2.0
// What a command is, and the list of them.
#pragma once

#include <string>
#include <vector>

#include "cli/args.h"
#include "cli/console.h"
#include "config/environment.h"

namespace accelerate {

/// What a command may use of the outside.
struct CommandContext {
  Console& console;
  Environment environment;
  /// The binary itself, for files that lie beside it.
  std::string executable;
};

struct Command {
  const CommandInfo& (*info)();
  /// Returns the exit code; throws `Error` otherwise.
  int (*run)(const ParsedArgs& arguments, CommandContext& context);
};

const std::vector<Command>& all_commands();
const Command* find_command(std::string_view name);
std::string version_text();

}  // namespace accelerate
