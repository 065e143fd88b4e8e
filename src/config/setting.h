// SPDX-License-Identifier: Apache-2.0
// The registry of settings: every one once, with its key, flag, environment
// variable, type, default, allowed values and help.
//
// Flags, files, the environment of workers, `accelerate explain`, the help
// texts and the pages in docs/reference/ all come from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

enum class SettingType { boolean, integer, real, text, choice };

/// Under which heading help shows it.
enum class SettingGroup {
  general,
  hardware,
  resources,
  machines,
  output,
  failures,
  build,
};

/// Which file may hold it.
enum class SettingFile {
  none,  ///< Only on the command line.
  peer,  ///< The file shared with the Python package.
  own,   ///< `accelerate_cpp.yaml` beside it.
};

struct Setting {
  std::string name = {};     ///< The key in a file, and what code asks for.
  std::string flag = {};     ///< Without dashes; empty: no flag.
  std::string letter = {};   ///< Its one-letter flag, if any.
  std::string section = {};  ///< The sub-dictionary of the file it stands in.
  std::string variable =
      {};  ///< The environment variable that sets it, if any.
  SettingType type = SettingType::text;
  std::string default_text = {};  ///< Empty: none, see `default_note`.
  std::string default_note = {};  ///< What happens without a value, in words.
  std::vector<std::string> choices = {};
  std::int64_t least = 0;
  std::int64_t most = INT64_MAX;
  std::string value_name = {};  ///< What help shows after the flag.
  std::string help = {};
  SettingGroup group = SettingGroup::general;
  SettingFile file = SettingFile::none;
};

/// All settings, in the order in which help shows them.
const std::vector<Setting>& all_settings();
const Setting* find_setting(std::string_view name);
/// By flag without its dashes, `-` and `_` being equal.
const Setting* find_setting_by_flag(std::string_view flag);
std::string title_of(SettingGroup group);

/// A key or flag of the Python package for something this one does not have.
struct PeerSetting {
  std::string name;     ///< The key, or the flag without dashes.
  std::string feature;  ///< What it belongs to, for the refusal.
  /// Values that ask for nothing; a file may hold them.
  std::vector<std::string> inert = {};
  std::string section = {};  ///< The sub-dictionary it stands in.
  bool is_flag = true;
  bool is_key = false;
};

const std::vector<PeerSetting>& peer_settings();
const PeerSetting* find_peer_flag(std::string_view flag);
const PeerSetting* find_peer_key(
    std::string_view section, std::string_view key);

/// Turns text into the setting's value.
///
/// `subject` says whose text it is, ready to be printed: "--num_processes",
/// "config.yaml:3: `num_processes`". Throws `ConfigError` naming subject,
/// value, what is allowed and, for a choice, the nearest one.
Json parse_setting(
    const Setting& setting,
    const std::string& text,
    const std::string& subject);

/// What may be typed: "no, fp16, bf16", "a whole number from 1 to 65535".
std::string allowed_values(const Setting& setting);

}  // namespace accelerate
