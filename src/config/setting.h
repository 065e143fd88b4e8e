// SPDX-License-Identifier: Apache-2.0
// The registry of settings. Each setting is listed once, with its key, flag,
// environment variable, type, default, allowed values and help.
//
// Flags, files, the environment of workers, `accelerate explain`, the help
// texts and the pages in docs/reference/ all use this registry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

enum class SettingType { boolean, integer, real, text, choice };

/// The heading under which the help text lists the setting.
enum class SettingGroup {
  general,
  hardware,
  resources,
  machines,
  output,
  failures,
  build,
};

/// The configuration file that may contain the setting.
enum class SettingFile {
  none,    ///< The setting is not allowed in files.
  python,  ///< `default_config.yaml`, shared with Hugging Face Accelerate.
  cpp,     ///< `accelerate_cpp.yaml`, next to `default_config.yaml`.
};

struct Setting {
  std::string name = {};      ///< The name in code, and the key in a file.
  std::string flag = {};      ///< The flag without dashes, if any.
  std::string letter = {};    ///< The setting's one-letter flag, if any.
  std::string section = {};   ///< The section in the file, if any.
  std::string variable = {};  ///< The environment variable, if any.
  SettingType type = SettingType::text;
  std::string default_text = {};  ///< The default, if it is fixed.
  std::string default_note = {};  ///< Describes a default that is not fixed.
  std::vector<std::string> choices = {};
  std::int64_t minimum = 0;
  std::int64_t maximum = INT64_MAX;
  std::string value_name = {};  ///< Placeholder for the value in help texts.
  std::string help = {};
  SettingGroup group = SettingGroup::general;
  SettingFile file = SettingFile::none;
  /// Whether the value chooses a program to run, such as a compiler. Only files
  /// in the user's own configuration folder may contain such settings.
  bool chooses_program = false;
};

/// Returns all settings, in the order of the help text.
const std::vector<Setting>& all_settings();
const Setting* find_setting(std::string_view name);
/// Finds the setting for `flag`, which has no leading dashes. In `flag`, `-`
/// and `_` are equivalent. Returns null if there is no such setting.
const Setting* find_setting_by_flag(std::string_view flag);
std::string title_of(SettingGroup group);

/// A key or flag of Hugging Face Accelerate for a feature that this version
/// does not support.
struct PythonSetting {
  std::string name;     ///< The key, or the flag without dashes.
  std::string feature;  ///< The feature, for the error message.
  /// Values that do not request the feature, so a file may contain them.
  std::vector<std::string> inert = {};
  std::string section = {};  ///< The sub-dictionary that contains the key.
  bool is_flag = true;
  bool is_key = false;
};

const std::vector<PythonSetting>& python_settings();
const PythonSetting* find_python_flag(std::string_view flag);
const PythonSetting* find_python_key(
    std::string_view section, std::string_view key);

/// Parses `text` as a value of `setting`.
///
/// `subject` names the source of `text` in error messages: "--num_processes" or
/// "config.yaml:3: `num_processes`". Throws `ConfigError` if the value is not
/// allowed. The error contains `subject`, the value, the allowed values and,
/// for a choice, the nearest allowed value.
Json parse_setting(
    const Setting& setting,
    const std::string& text,
    const std::string& subject);

/// Describes the allowed values: "no, fp16, bf16" or "a whole number from 1 to
/// 65535".
std::string allowed_values(const Setting& setting);

}  // namespace accelerate
