// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/help.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/help_text.h"

namespace accelerate {
namespace {

std::string topic_text(const std::string& topic) {
  if (topic == "exit-codes") {
    return exit_codes_help();
  }
  if (topic == "environment") {
    return environment_help();
  }
  const Command* command = find_command(topic);
  return command == nullptr ? std::string() : command_help(command->info());
}

[[noreturn]] void throw_unknown_topic(const std::string& topic) {
  std::vector<std::string> topics = {"exit-codes", "environment"};
  for (const Command& command : all_commands()) {
    topics.push_back(command.info().name);
  }
  std::string hint = did_you_mean(topic, topics);
  throw ConfigError(
      str_cat("no help topic `", printable(topic), "`"),
      hint.empty() ? str_cat("use one of ", join(topics, ", ")) : hint);
}

}  // namespace

const CommandInfo& help_info() {
  static const CommandInfo info = {
      .name = "help",
      .summary = "Explain a command, the environment variables or exit codes.",
      .usage = "help [{<command> | environment | exit-codes}]",
      .options =
          {{.name = "markdown",
            .help = "Print a page from docs/reference/ as Markdown: cli, "
                    "configuration, environment or exit-codes."}},
      .max_positional = 1,
      .first_choices = {"environment", "exit-codes"},
      .examples =
          {"accelerate help launch",
           "accelerate help environment",
           "accelerate help exit-codes"},
  };
  return info;
}

int run_help(const ParsedArgs& arguments, CommandContext& context) {
  const std::string topic =
      arguments.positional.empty() ? "" : arguments.positional[0];
  if (topic.empty()) {
    context.console.print(overview_help());
    return 0;
  }
  std::string text =
      arguments.has("markdown") ? reference_page(topic) : topic_text(topic);
  if (text.empty()) {
    throw_unknown_topic(topic);
  }
  if (text.ends_with("\n")) {
    text.pop_back();
  }
  context.console.print(text);
  return 0;
}

}  // namespace accelerate
