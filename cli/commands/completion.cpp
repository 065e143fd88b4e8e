// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/completion.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

std::vector<std::string> flags_of(const CommandInfo& info) {
  std::vector<std::string> flags;
  for (const ArgOption& option : info.options) {
    flags.push_back("--" + option.name);
  }
  flags.push_back("--help");
  return flags;
}

std::string command_names() {
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    names.push_back(command.info().name);
  }
  return join(names, " ");
}

std::string bash_script() {
  std::string cases;
  for (const Command& command : all_commands()) {
    cases += str_cat(
        "    ",
        command.info().name,
        ") words=\"",
        join(flags_of(command.info()), " "),
        "\" ;;\n");
  }
  return str_cat(
      "_accelerate() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"",
      command_names(),
      " --help --version\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${COMP_WORDS[1]}\" in\n",
      cases,
      "  esac\n"
      "  if [[ \"$current\" == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _accelerate accelerate");
}

// Characters that zsh's option specifications give a meaning.
std::string zsh_text(std::string text) {
  for (const char* special : {"[", "]", ":", "'"}) {
    text = replace_all(text, special, special[0] == '\'' ? "’" : " ");
  }
  return text;
}

std::string zsh_script() {
  std::string commands;
  std::string cases;
  for (const Command& command : all_commands()) {
    const CommandInfo& info = command.info();
    commands += str_cat("    '", info.name, ":", zsh_text(info.summary), "'\n");
    cases += str_cat("    ", info.name, ") _arguments");
    for (const ArgOption& option : info.options) {
      cases += str_cat(
          " \\\n      '--",
          option.name,
          "[",
          zsh_text(option.help),
          "]",
          option.value_name.empty() ? "" : ":value:_files",
          "'");
    }
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return str_cat(
      "#compdef accelerate\n"
      "_accelerate() {\n"
      "  local -a commands=(\n",
      commands,
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "}\n"
      "compdef _accelerate accelerate");
}

std::string fish_script() {
  std::string text;
  for (const Command& command : all_commands()) {
    const CommandInfo& info = command.info();
    text += str_cat(
        "complete -c accelerate -n __fish_use_subcommand -f -a ",
        info.name,
        " -d ",
        shell_quote(info.summary),
        "\n");
    for (const ArgOption& option : info.options) {
      text += str_cat(
          "complete -c accelerate -n '__fish_seen_subcommand_from ",
          info.name,
          "' -l ",
          option.name,
          option.value_name.empty() ? "" : " -r",
          " -d ",
          shell_quote(option.help),
          "\n");
    }
  }
  text.pop_back();
  return text;
}

}  // namespace

const CommandInfo& completion_info() {
  static const CommandInfo info = {
      .name = "completion",
      .summary = "Print the script that teaches a shell our commands.",
      .usage = "completion {bash | zsh | fish}",
      .least_words = 1,
      .most_words = 1,
      .examples =
          {"eval \"$(accelerate completion bash)\"",
           "accelerate completion fish > "
           "~/.config/fish/completions/accelerate.fish"},
  };
  return info;
}

int run_completion(const ParsedArgs& arguments, CommandContext& context) {
  const std::string& shell = arguments.words[0];
  if (shell == "bash") {
    context.console.print(bash_script());
  } else if (shell == "zsh") {
    context.console.print(zsh_script());
  } else if (shell == "fish") {
    context.console.print(fish_script());
  } else {
    throw ConfigError(
        str_cat("no completion for `", printable(shell), "`"),
        "shells: bash, zsh, fish");
  }
  return 0;
}

}  // namespace accelerate
