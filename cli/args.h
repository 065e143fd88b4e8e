// SPDX-License-Identifier: Apache-2.0
// From a command's words to its options.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"

namespace accelerate {

/// One option a command takes.
struct ArgOption {
  std::string name;             ///< Without dashes, with underscores.
  std::string letter = {};      ///< `-x`, if any.
  std::string value_name = {};  ///< Empty: a flag without a value.
  std::string help = {};
  std::string default_text = {};
  std::string group = {};
  std::vector<std::string> choices = {};
};

/// What a command takes, and what help says about it.
struct CommandInfo {
  std::string name;
  std::string summary;
  std::string usage;  ///< After "accelerate".
  std::vector<ArgOption> options = {};
  std::size_t least_words = 0;
  std::size_t most_words = 0;
  /// What the first one may be, where that is a closed list; for shells.
  std::vector<std::string> first_words = {};
  /// The first word ends our options: the rest belongs to a program.
  bool runs_program = false;
  std::string notes = {};
  std::vector<std::string> examples = {};
};

struct ParsedOption {
  std::string name;
  std::string text;     ///< "true" for a flag without a value.
  std::string spelled;  ///< As the command's help shows it: "--num_processes".
};

struct ParsedArgs {
  std::vector<ParsedOption> options;
  std::vector<std::string> words;
  bool wants_help = false;

  const ParsedOption* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::optional<std::string> get(std::string_view name) const;
};

/// Splits `arguments` (without the command's own name).
///
/// Throws `ConfigError` on unknown flags (with the nearest known one, or that
/// the Python package's feature is missing here), missing values, options
/// given twice, and too few or too many words.
ParsedArgs parse_args(
    const CommandInfo& info, const std::vector<std::string>& arguments);

/// The registry's entry as an option.
ArgOption option_of(const Setting& setting);

}  // namespace accelerate
