// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.h"

#include <algorithm>

#include "base/str_cat.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/variables.h"

namespace accelerate {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kOptionColumn = 34;

struct ExitCode {
  const char* code;
  const char* meaning;
  const char* errors = "";  // The exceptions with this exit code.
};
constexpr ExitCode kExitCodes[] = {
    {"0", "Success."},
    {"1",
     "Failure at run time: a file, a device, another process or another "
     "machine failed, memory ran out, a call was made at the wrong time, or an "
     "operation is not supported; the message says which.",
     "`StateError`, `UnsupportedError`, `IoError`, `FormatError`, "
     "`DistributedError`, `MismatchError`, `RankError`, `OutOfMemoryError`"},
    {"2",
     "Usage or configuration error: a flag, a variable or a file is wrong, or "
     "a single-file program does not compile.",
     "`ArgumentError`, `ConfigError`"},
    {"70",
     "A bug in `accelerate`; report it with the output of `accelerate env`.",
     "`InternalError`"},
    {"75",
     "`accelerate::kPreemptedExitCode`: the program was preempted (SIGTERM, "
     "SIGUSR1), saved a checkpoint and exited; start it again to resume."},
    {"128+n", "Killed by signal n: 130 after Ctrl-C, 137 after SIGKILL."},
    {"other",
     "`accelerate launch`: the exit code of the worker that failed first."},
};

// The number of columns that UTF-8 text takes if it has no wide characters.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
      }));
}

std::string option_left(const ArgOption& option) {
  std::string left = "  ";
  left += option.letter.empty() ? "    " : str_cat("-", option.letter, ", ");
  left += "--" + option.name;
  if (!option.value_name.empty()) {
    left += " " + option.value_name;
  }
  return left;
}

std::string option_right(const ArgOption& option) {
  return option.default_text.empty()
             ? option.help
             : str_cat(option.help, " [", option.default_text, "]");
}

std::string table_row(const std::string& left, const std::string& right) {
  std::string text = left;
  if (width(left) + 2 > kOptionColumn) {
    text += "\n" + std::string(kOptionColumn, ' ');
  } else {
    text += std::string(kOptionColumn - width(left), ' ');
  }
  return text + wrap(right, kColumns, kOptionColumn) + "\n";
}

std::string options_help(const CommandInfo& info) {
  std::string text;
  std::string group;
  for (const ArgOption& option : info.options) {
    const std::string title = option.group.empty() ? "Options" : option.group;
    if (title != group) {
      text += str_cat("\n", title, ":\n");
      group = title;
    }
    text += table_row(option_left(option), option_right(option));
  }
  return text;
}

std::string exit_codes_markdown() {
  std::string text =
      "# Exit codes\n\nThe exit codes of `accelerate`, and of programs that "
      "follow its convention (`accelerate::Error::exit_code`).\n\n"
      "| code | meaning | errors |\n|---|---|---|\n";
  for (const ExitCode& entry : kExitCodes) {
    text += str_cat(
        "| ", entry.code, " | ", entry.meaning, " | ", entry.errors, " |\n");
  }
  return text;
}

std::string escaped(const std::string& text) {
  return replace_all(text, "|", "\\|");
}

std::string cli_markdown() {
  std::string text =
      "# Command line\n\nThis page shows the help text of every command.\n";
  text += str_cat("\n```text\n", overview_help(), "\n```\n");
  for (const Command& command : all_commands()) {
    text += str_cat(
        "\n## accelerate ",
        command.info().name,
        "\n\n```text\n",
        command_help(command.info()),
        "\n```\n");
  }
  return text;
}

std::string variables_markdown(const std::string& title, Variable::Use use) {
  std::string text =
      str_cat("\n## ", title, "\n\n| variable | meaning |\n|---|---|\n");
  for (const Variable& variable : all_variables()) {
    if (variable.use == use) {
      text += str_cat(
          "| `",
          replace_all(variable.name, ", ", "`, `"),
          "` | ",
          escaped(variable.help),
          " |\n");
    }
  }
  return text;
}

std::string environment_markdown() {
  return "# Environment variables for settings, downloads and workers\n\n"
         "`accelerate help environment` prints these lists.\n"
         "The variables that `PartialState` and `get_logger` read are in "
         "[Environment variables for ranks, rendezvous, device and logging]"
         "(process-variables.md).\n" +
         variables_markdown("Settings", Variable::Use::setting) +
         variables_markdown(
             "Other variables that Accelerate reads", Variable::Use::read) +
         variables_markdown(
             "Variables that `accelerate launch` sets for workers",
             Variable::Use::worker);
}

std::string setting_row(const Setting& setting) {
  const std::string key = setting.section.empty()
                              ? setting.name
                              : setting.section + "." + setting.name;
  const std::string value = setting.default_text.empty()
                                ? setting.default_note
                                : "`" + setting.default_text + "`";
  return str_cat(
      "| `",
      key,
      "` | ",
      setting.flag.empty() ? "" : str_cat("`--", setting.flag, "`"),
      " | ",
      setting.variable.empty() ? "" : str_cat("`", setting.variable, "`"),
      " | ",
      escaped(allowed_values(setting)),
      " | ",
      escaped(value),
      " | ",
      escaped(setting.help),
      " |\n");
}

std::string settings_markdown(const std::string& title, SettingFile file) {
  std::string text = str_cat(
      "\n## ",
      title,
      "\n\n| key | flag | variable | values | default | meaning |\n"
      "|---|---|---|---|---|---|\n");
  for (const Setting& setting : all_settings()) {
    if (setting.file == file) {
      text += setting_row(setting);
    }
  }
  return text;
}

std::string configuration_markdown() {
  return "# Configuration\n\nA flag overrides an environment variable, a "
         "variable overrides a file, and a file overrides the "
         "default.\n`accelerate explain` shows the value of every setting and "
         "where it came from, and `accelerate launch` prints the files it has "
         "read.\n`cxx` and `cxx_flags` can make `accelerate launch` "
         "run arbitrary commands, so a configuration file may set these keys "
         "only if the file is in your own configuration folder and no other "
         "user can write to the file.\n" +
         settings_markdown(
             "`default_config.yaml`, shared with Hugging Face Accelerate",
             SettingFile::python) +
         settings_markdown(
             "`accelerate_cpp.yaml`, in the same folder", SettingFile::cpp) +
         settings_markdown("Command line only", SettingFile::none);
}

}  // namespace

std::string overview_help() {
  std::string text =
      "Run one training program on a CPU, on GPUs or on several machines.\n\n"
      "Usage: accelerate <command> [options]\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    const std::string left = "  " + command.info().name;
    text += left + std::string(20 - width(left), ' ') + command.info().summary +
            "\n";
  }
  text +=
      "\nOptions:\n"
      "  -h, --help        Show this help, or the help of a command.\n"
      "  -V, --version     Show the version.\n"
      "      --verbose     Show where an error was thrown.\n"
      "\nExamples:\n"
      "  accelerate config\n"
      "  accelerate launch ./train --epochs 3\n"
      "  accelerate launch --cpu --num_processes 2 train.cpp";
  return text;
}

std::string command_help(const CommandInfo& info) {
  std::string text =
      str_cat(info.summary, "\n\nUsage: accelerate ", info.usage, "\n");
  text += options_help(info);
  if (!info.notes.empty()) {
    text += "\n" + info.notes + "\n";
  }
  if (!info.examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : info.examples) {
      text += "  " + example + "\n";
    }
  }
  text.pop_back();
  return text;
}

std::string environment_help() {
  std::string text;
  const std::pair<Variable::Use, const char*> parts[] = {
      {Variable::Use::setting, "Settings (flags override them):"},
      {Variable::Use::read, "Other variables that Accelerate reads:"},
      {Variable::Use::worker,
       "Variables that `accelerate launch` sets for workers:"},
  };
  for (const auto& [use, title] : parts) {
    text += str_cat(text.empty() ? "" : "\n", title, "\n");
    for (const Variable& variable : all_variables()) {
      if (variable.use == use) {
        text += str_cat(
            "  ",
            wrap(variable.name, kColumns, 2),
            "\n      ",
            wrap(variable.help, kColumns, 6),
            "\n");
      }
    }
  }
  text.pop_back();
  return text;
}

std::string exit_codes_help() {
  std::string text;
  for (const ExitCode& entry : kExitCodes) {
    const std::string code = entry.code;
    text += str_cat(
        code,
        std::string(8 - code.size(), ' '),
        wrap(entry.meaning, kColumns, 8),
        "\n");
  }
  text.pop_back();
  return text;
}

std::string reference_page(const std::string& name) {
  const std::string note = str_cat(
      "<!-- Generated by `accelerate help --markdown ", name, "`. -->\n\n");
  if (name == "cli") {
    return note + cli_markdown();
  }
  if (name == "environment") {
    return note + environment_markdown();
  }
  if (name == "exit-codes") {
    return note + exit_codes_markdown();
  }
  if (name == "configuration") {
    return note + configuration_markdown();
  }
  return {};
}

}  // namespace accelerate
