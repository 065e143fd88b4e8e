// SPDX-License-Identifier: Apache-2.0
// `accelerate <command>`: runs the command, prints its errors and returns the
// exit code. No other code prints errors.
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "accelerate/error.h"
#include "base/standard_streams.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/help_text.h"

namespace accelerate {
namespace {

// Commands of Hugging Face Accelerate for features that this library does not
// support.
constexpr const char* kUnsupported[][2] = {
    {"merge-weights", "FSDP"},
    {"to-fsdp2", "FSDP"},
    {"tpu-config", "TPU training"},
};

[[noreturn]] void throw_unknown_command(const std::string& name) {
  for (const auto& [command, feature] : kUnsupported) {
    if (name == command) {
      throw ConfigError(str_cat(
          "`accelerate ",
          name,
          "` is for ",
          feature,
          ", which this version does not support"));
    }
  }
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    names.push_back(command.info().name);
  }
  std::string hint = did_you_mean(name, names);
  throw ConfigError(
      str_cat("unknown command `", printable(name), "`"),
      hint.empty() ? "see `accelerate --help`" : hint);
}

int run_command(
    const std::string& name,
    const std::vector<std::string>& arguments,
    CommandContext& context) {
  const Command* command = find_command(name);
  if (command == nullptr) {
    throw_unknown_command(name);
  }
  const ParsedArgs parsed = parse_args(command->info(), arguments);
  if (parsed.wants_help) {
    context.console.print(command_help(command->info()));
    return 0;
  }
  context.console.set_verbose(parsed.has("verbose"));
  return command->run(parsed, context);
}

int dispatch(std::vector<std::string> argv, CommandContext& context) {
  // `accelerate-launch` and similar names are links to this binary.
  const std::string self = std::filesystem::path(argv[0]).filename().string();
  if (self.starts_with("accelerate-")) {
    argv.insert(argv.begin() + 1, self.substr(11));
  }
  if (argv.size() < 2) {
    context.console.write_error(overview_help() + "\n");
    return 2;
  }
  const std::string& first = argv[1];
  if (first == "--help" || first == "-h") {
    context.console.print(overview_help());
    return 0;
  }
  if (first == "--version" || first == "-V") {
    context.console.print(version_text());
    return 0;
  }
  if (first.starts_with("-")) {
    throw ConfigError(
        str_cat("unknown option `", printable(first), "`"),
        "put options after the command; see `accelerate --help`");
  }
  return run_command(first, {argv.begin() + 2, argv.end()}, context);
}

std::string path_of_this_binary() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

int guarded_main(int argc, char** argv) {
  const Environment environment = Environment::of_this_process();
  Console console(STDOUT_FILENO, STDERR_FILENO, environment);
  CommandContext context{console, environment, path_of_this_binary()};
  try {
    return dispatch({argv, argv + argc}, context);
  } catch (const Error& error) {
    console.error(error);
    if (error.exit_code() == 70) {
      console.hint(
          "this is a bug; report it with the output of `accelerate env`");
    }
    return error.exit_code();
  } catch (const std::exception& error) {
    console.error(InternalError(
        error.what(), "report this with the output of `accelerate env`"));
    return 70;
  }
}

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  accelerate::open_standard_streams();
  return accelerate::guarded_main(argc, argv);
}
