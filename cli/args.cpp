// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11.
#include "cli/args.h"

#include <algorithm>
#include <map>

#include <CLI/CLI.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

const std::vector<ArgOption>& common_options() {
  static const std::vector<ArgOption> all = {
      {.name = "help", .letter = "h", .help = "Show this help."},
      {.name = "verbose", .help = "Show where an error was thrown."},
  };
  return all;
}

std::string spelling(const ArgOption& option) {
  return "--" + option.name;
}

// Returns the letter and both spellings of the name, as in "--a_b,--a-b,-x".
std::string names_of(const ArgOption& option) {
  std::string names = spelling(option);
  if (option.name.find('_') != std::string::npos) {
    names += ",--" + replace_all(option.name, "_", "-");
  }
  if (!option.letter.empty()) {
    names += ",-" + option.letter;
  }
  return names;
}

std::vector<std::string> known_flags(const CommandInfo& info) {
  std::vector<std::string> names;
  for (const auto* options : {&info.options, &common_options()}) {
    for (const ArgOption& option : *options) {
      names.push_back(spelling(option));
    }
  }
  return names;
}

[[noreturn]] void throw_unknown(
    const CommandInfo& info, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  if (flag.starts_with("--")) {
    if (const PythonSetting* setting = find_python_flag(flag.substr(2))) {
      throw ConfigError(str_cat(
          flag,
          " is for ",
          setting->feature,
          ", which this version does not support"));
    }
  }
  std::string hint = did_you_mean(flag, known_flags(info));
  if (hint.empty()) {
    hint = str_cat("see `accelerate ", info.name, " --help`");
  }
  throw ConfigError(str_cat("unknown option `", printable(flag), "`"), hint);
}

// Converts CLI11's errors to `ConfigError`.
[[noreturn]] void throw_translated(
    const CommandInfo& info, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string flag = text.substr(0, text.find_first_of(" :,="));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = text.find("At Most 1") != std::string::npos ||
                       text.find("at most 1") != std::string::npos;
    throw ConfigError(
        twice ? str_cat(flag, " is given twice")
              : str_cat(flag, " needs a value"),
        str_cat("see `accelerate ", info.name, " --help`"));
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    throw ConfigError(
        str_cat(printable(text)),
        str_cat("see `accelerate ", info.name, " --help`"));
  }
  throw ConfigError(
      printable(text), str_cat("see `accelerate ", info.name, " --help`"));
}

void check_positional(const CommandInfo& info, const ParsedArgs& parsed) {
  for (const std::string& argument : parsed.positional) {
    if (info.runs_program) {
      break;
    }
    if (argument.size() > 1 && argument[0] == '-') {
      throw_unknown(info, argument);
    }
  }
  if (info.runs_program && !parsed.positional.empty() &&
      parsed.positional[0].starts_with("-")) {
    throw_unknown(info, parsed.positional[0]);
  }
  if (parsed.positional.size() < info.min_positional) {
    throw ConfigError(
        str_cat("`accelerate ", info.name, "` needs an argument"),
        str_cat("usage: accelerate ", info.usage));
  }
  if (parsed.positional.size() > info.max_positional && !info.runs_program) {
    throw ConfigError(
        str_cat(
            "`accelerate ",
            info.name,
            "` does not take `",
            printable(parsed.positional[info.max_positional]),
            "`"),
        str_cat("usage: accelerate ", info.usage));
  }
}

// Holds the values that CLI11 parses.
class Collector {
 public:
  Collector(CLI::App& app, const ArgOption& option) : option_(option) {
    if (option.value_name.empty()) {
      handle_ = app.add_flag(names_of(option));
      handle_->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    } else {
      handle_ = app.add_option(names_of(option), value_);
    }
  }

  void collect(ParsedArgs& parsed) const {
    if (handle_->count() == 0) {
      return;
    }
    const std::string text =
        option_.value_name.empty() ? handle_->results().back() : value_;
    parsed.options.push_back({option_.name, text, spelling(option_)});
  }

 private:
  const ArgOption& option_;
  std::string value_;
  CLI::Option* handle_ = nullptr;
};

}  // namespace

const ParsedOption* ParsedArgs::find(std::string_view name) const {
  const auto found = std::find_if(
      options.begin(), options.end(), [&](const ParsedOption& option) {
        return option.name == name;
      });
  return found == options.end() ? nullptr : &*found;
}

std::optional<std::string> ParsedArgs::get(std::string_view name) const {
  const ParsedOption* found = find(name);
  return found == nullptr ? std::nullopt : std::optional(found->text);
}

ParsedArgs parse_args(
    const CommandInfo& info, const std::vector<std::string>& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(info.runs_program);
  std::vector<std::unique_ptr<Collector>> collectors;
  for (const auto* options : {&info.options, &common_options()}) {
    for (const ArgOption& option : *options) {
      collectors.push_back(std::make_unique<Collector>(app, option));
    }
  }
  ParsedArgs parsed;
  try {
    // CLI11 expects the arguments in reverse order.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    throw_translated(info, error);
  }
  for (const auto& collector : collectors) {
    collector->collect(parsed);
  }
  parsed.positional = app.remaining();
  parsed.wants_help = parsed.has("help");
  if (!parsed.wants_help) {
    // CLI11 does not remove a `--` separator in front of a program.
    if (!parsed.positional.empty() && parsed.positional[0] == "--") {
      parsed.positional.erase(parsed.positional.begin());
    }
    check_positional(info, parsed);
  }
  return parsed;
}

ArgOption option_of(const Setting& setting) {
  ArgOption option;
  option.name = setting.flag;
  option.letter = setting.letter;
  if (setting.type != SettingType::boolean) {
    option.value_name =
        setting.value_name.empty() ? "VALUE" : setting.value_name;
  }
  if (setting.type == SettingType::choice) {
    option.value_name = "{" + join(setting.choices, " | ") + "}";
  }
  option.help = setting.help;
  option.default_text = setting.default_text.empty() ? setting.default_note
                                                     : setting.default_text;
  if (setting.type == SettingType::boolean && setting.default_text == "false") {
    option.default_text.clear();
  }
  option.group = title_of(setting.group);
  option.choices = setting.choices;
  return option;
}

}  // namespace accelerate
