// SPDX-License-Identifier: Apache-2.0
#include "cli/completion_scripts.h"

#include <map>
#include <vector>

#include "base/str_cat.h"
#include "base/text.h"
#include "cli/command.h"

namespace accelerate {
namespace {

const ArgOption& help_option() {
  static const ArgOption option = {
      .name = "help", .letter = "h", .help = "Show this help."};
  return option;
}

std::vector<ArgOption> options_of(const CommandInfo& info) {
  std::vector<ArgOption> options = info.options;
  options.push_back(help_option());
  return options;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : all_commands()) {
    names.push_back(command.info().name);
  }
  return names;
}

// Returns the values of the first positional argument; empty if any value is
// allowed.
std::vector<std::string> first_choices(const CommandInfo& info) {
  std::vector<std::string> choices = info.first_choices;
  if (info.name == "help") {
    const auto names = command_names();
    choices.insert(choices.end(), names.begin(), names.end());
  }
  return choices;
}

enum class Value { none, choice, path, other };

Value value_of(const ArgOption& option) {
  if (option.value_name.empty()) {
    return Value::none;
  }
  if (!option.choices.empty()) {
    return Value::choice;
  }
  const bool path = option.value_name == "PATH" || option.value_name == "DIR";
  return path ? Value::path : Value::other;
}

std::string both_spellings(const std::string& name) {
  return name.find('_') == std::string::npos
             ? "--" + name
             : str_cat("--", name, "|--", replace_all(name, "_", "-"));
}

// ---------------------------------------------------------------------- bash

// Returns all options with a value, by name. Options with the same name have
// the same meaning in every command.
std::map<std::string, ArgOption> valued_options() {
  std::map<std::string, ArgOption> all;
  for (const Command& command : all_commands()) {
    for (const ArgOption& option : command.info().options) {
      if (value_of(option) != Value::none) {
        all.emplace(option.name, option);
      }
    }
  }
  return all;
}

std::string bash_value_cases() {
  std::string cases;
  for (const auto& [name, option] : valued_options()) {
    cases += "    " + both_spellings(name);
    cases += option.letter.empty() ? ")" : str_cat("|-", option.letter, ")");
    if (value_of(option) == Value::choice) {
      cases +=
          str_cat(" _accelerate_words \"", join(option.choices, " "), "\";");
    } else if (value_of(option) == Value::path) {
      cases += " _accelerate_files;";
    }
    cases += " return 0 ;;\n";
  }
  return cases;
}

std::string bash_command_cases() {
  std::string cases;
  for (const Command& command : all_commands()) {
    const CommandInfo& info = command.info();
    std::vector<std::string> flags;
    for (const ArgOption& option : options_of(info)) {
      flags.push_back("--" + option.name);
    }
    cases += str_cat("    ", info.name, ") options=\"", join(flags, " "), "\"");
    if (const auto choices = first_choices(info); !choices.empty()) {
      cases += str_cat(" words=\"", join(choices, " "), "\"");
    }
    cases += info.runs_program ? " program=1 ;;\n" : " ;;\n";
  }
  return cases;
}

constexpr const char* kBashHead = R"(_accelerate_words() {
  COMPREPLY=($(compgen -W "$1" -- "$current"))
}
_accelerate_files() {
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$current"))
}
# The values of option $1; fails when it takes none.
_accelerate_values() {
  case "$1" in
)";

constexpr const char* kBashMiddle = R"(    *) return 1 ;;
  esac
}
_accelerate() {
  local current="${COMP_WORDS[COMP_CWORD]}" i
  local previous="${COMP_WORDS[COMP_CWORD-1]}"
  local options="" words="" program=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
)";

// bash splits `--a=b` into three words.
constexpr const char* kBashTail = R"(  esac
  if [ "$current" = "=" ]; then
    current=""
  elif [ "$previous" = "=" ]; then
    previous="${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    case "${COMP_WORDS[i]}" in
      =) i=$((i + 1)) ;;
      -*)
        if _accelerate_values "${COMP_WORDS[i]}" &&
          [ "${COMP_WORDS[i+1]}" != "=" ]; then
          i=$((i + 1))
        fi ;;
      *)
        # A positional argument; all words after a program are its arguments.
        [ -z "$program" ] || { _accelerate_files; return; }
        words="" ;;
    esac
  done
  COMPREPLY=()
  _accelerate_values "$previous" && return
  if [[ "$current" == --*-* ]]; then
    _accelerate_words "${options//_/-}"
  elif [[ "$current" == -* ]]; then
    _accelerate_words "$options"
  elif [ -n "$words" ]; then
    _accelerate_words "$words"
  else
    _accelerate_files
  fi
}
complete -F _accelerate accelerate)";

// ----------------------------------------------------------------------- zsh

std::string in_quotes(const std::string& text) {
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

// Escapes characters that have a special meaning in a zsh specification.
std::string zsh_escape(std::string text) {
  for (const char* special : {"\\", "[", "]", ":"}) {
    text = replace_all(text, special, str_cat("\\", special));
  }
  return text;
}

std::string zsh_value(const ArgOption& option) {
  switch (value_of(option)) {
    case Value::none:
      return "";
    case Value::choice:
      return str_cat(":value:(", join(option.choices, " "), ")");
    case Value::path:
      return ":path:_files";
    case Value::other:
      return ":value: ";
  }
  return "";
}

std::string zsh_option(const ArgOption& option, const std::string& flag) {
  const bool takes = value_of(option) != Value::none;
  const char* equals = takes && flag.starts_with("--") ? "=" : "";
  return str_cat(
      " \\\n      ",
      in_quotes(str_cat(
          flag, equals, "[", zsh_escape(option.help), "]", zsh_value(option))));
}

std::string zsh_command(const CommandInfo& info) {
  std::string text = str_cat("    ", info.name, ") _arguments -S");
  for (const ArgOption& option : options_of(info)) {
    text += zsh_option(option, "--" + option.name);
    if (!option.letter.empty()) {
      text += zsh_option(option, "-" + option.letter);
    }
  }
  const auto choices = first_choices(info);
  if (info.runs_program) {
    text += " \\\n      '(-)1:program:_files' '(-)*:argument:_files'";
  } else if (!choices.empty()) {
    text += str_cat(" \\\n      '1:argument:(", join(choices, " "), ")'");
  } else if (info.max_positional > 0) {
    text += " \\\n      '1:path:_files'";
  }
  return text + " ;;\n";
}

// ---------------------------------------------------------------------- fish

std::string fish_option(const CommandInfo& info, const ArgOption& option) {
  std::string text = str_cat(
      "complete -c accelerate -n '__fish_seen_subcommand_from ",
      info.name,
      "' -l ",
      option.name);
  if (!option.letter.empty()) {
    text += " -s " + option.letter;
  }
  switch (value_of(option)) {
    case Value::none:
      break;
    case Value::choice:
      text += str_cat(" -x -a ", shell_quote(join(option.choices, " ")));
      break;
    case Value::path:
      text += " -r -F";
      break;
    case Value::other:
      text += " -x";
      break;
  }
  return str_cat(text, " -d ", shell_quote(option.help), "\n");
}

std::string fish_command(const CommandInfo& info) {
  std::string text = str_cat(
      "complete -c accelerate -n __fish_use_subcommand -f -a ",
      info.name,
      " -d ",
      shell_quote(info.summary),
      "\n");
  for (const ArgOption& option : options_of(info)) {
    text += fish_option(info, option);
  }
  if (const auto choices = first_choices(info); !choices.empty()) {
    text += str_cat(
        "complete -c accelerate -n '__fish_seen_subcommand_from ",
        info.name,
        "' -f -a ",
        shell_quote(join(choices, " ")),
        "\n");
  }
  return text;
}

}  // namespace

std::string bash_completion() {
  return str_cat(
      kBashHead,
      bash_value_cases(),
      kBashMiddle,
      "    _accelerate_words \"",
      join(command_names(), " "),
      " --help --version\"\n    return\n  fi\n"
      "  case \"${COMP_WORDS[1]}\" in\n",
      bash_command_cases(),
      kBashTail);
}

std::string zsh_completion() {
  std::string commands;
  std::string cases;
  for (const Command& command : all_commands()) {
    const CommandInfo& info = command.info();
    commands += str_cat(
        "    ",
        in_quotes(str_cat(info.name, ":", zsh_escape(info.summary))),
        "\n");
    cases += zsh_command(info);
  }
  // The last lines support both a file in $fpath and `eval`.
  return str_cat(
      "#compdef accelerate\n"
      "_accelerate() {\n"
      "  local -a commands=(\n",
      commands,
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "}\n"
      "if [ \"$funcstack[1]\" = _accelerate ]; then\n"
      "  _accelerate \"$@\"\n"
      "else\n"
      "  compdef _accelerate accelerate\n"
      "fi");
}

std::string fish_completion() {
  std::string text;
  for (const Command& command : all_commands()) {
    text += fish_command(command.info());
  }
  text.pop_back();
  return text;
}

}  // namespace accelerate
