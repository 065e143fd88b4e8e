// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/launch_program.h"

#include "base/text.h"
#include "config/user_folders.h"

namespace accelerate {
namespace {

std::vector<std::string> split_flags(const std::string& text) {
  std::vector<std::string> flags;
  for (const std::string& flag : split(text, ' ')) {
    if (!flag.empty()) {
      flags.push_back(flag);
    }
  }
  return flags;
}

}  // namespace

Toolchain installed_toolchain(const CommandContext& context) {
  return find_toolchain(
      context.executable, context.environment.get("ACCELERATE_TOOLCHAIN"));
}

CompileOptions compile_options(
    const Settings& settings, CommandContext& context) {
  CompileOptions options;
  options.toolchain = installed_toolchain(context);
  options.compiler = settings.text("cxx");
  options.extra_flags = split_flags(settings.text("cxx_flags"));
  options.search_path = context.environment.get("PATH").value_or("");
  options.cache_folder = cache_folder(context.environment);
  options.print_status = [&](const std::string& text) {
    context.console.status(text);
  };
  return options;
}

}  // namespace accelerate
