// SPDX-License-Identifier: Apache-2.0
// Parses the arguments of a command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace accelerate {

/// An option of a command.
struct ArgOption {
  std::string name;  ///< The name without dashes, such as `num_processes`.
  std::string letter = {};  ///< `x` for the short option `-x`, if any.
  /// Name of the value in help texts; empty if there is no value.
  std::string value_name = {};
  std::string help = {};
  std::string default_text = {};
  std::string group = {};
  std::vector<std::string> choices = {};
};

/// The arguments of a command, and its help.
struct CommandInfo {
  std::string name;
  std::string summary;
  std::string usage;  ///< The usage, without the leading "accelerate".
  std::vector<ArgOption> options = {};
  std::size_t min_positional = 0;
  std::size_t max_positional = 0;
  /// Values that shell completion suggests for the first positional argument.
  std::vector<std::string> first_choices = {};
  /// Whether the first positional argument is a program and the other
  /// positional arguments are passed to it.
  bool runs_program = false;
  std::string notes = {};
  std::vector<std::string> examples = {};
};

struct ParsedOption {
  std::string name;
  std::string text;  ///< "true" for a flag without a value.
  std::string flag;  ///< The flag as shown in help: "--num_processes".
};

struct ParsedArgs {
  std::vector<ParsedOption> options;
  std::vector<std::string> positional;
  bool wants_help = false;

  const ParsedOption* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::optional<std::string> get(std::string_view name) const;
};

/// Parses `arguments`, which do not include the command's name.
///
/// Throws `ConfigError` for unknown flags (the error gives the nearest known
/// flag, or the feature of Hugging Face Accelerate that is not supported),
/// missing values, options given twice, and too few or too many positional
/// arguments.
ParsedArgs parse_args(
    const CommandInfo& info, const std::vector<std::string>& arguments);

/// Returns the command-line option for `setting`.
ArgOption option_of(const Setting& setting);

}  // namespace accelerate
