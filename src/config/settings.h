// SPDX-License-Identifier: Apache-2.0
// The current value of each setting, and where it came from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "accelerate/json.h"
#include "config/environment.h"
#include "config/setting.h"

namespace accelerate {

/// Where the value of a setting came from.
struct Origin {
  enum class Kind { built_in, found, file, environment, command_line };

  Kind kind = Kind::built_in;
  /// The exact source: "default_config.yaml:7", "OMP_NUM_THREADS", "--cpu" or
  /// "2 GPUs".
  std::string where;

  /// Returns the origin as `accelerate explain` prints it: "default", "found: 2
  /// GPUs" or "--cpu".
  std::string text() const;
};

/// A value, or none, for each setting in the registry.
///
/// Starts with the defaults. Apply configuration files first, then environment
/// variables, then flags: each source overrides the sources before it.
class Settings {
 public:
  Settings();

  void set(std::string_view name, Json value, Origin origin);

  /// Returns the setting's value; null if the setting has no value. Throws
  /// `InternalError` if `name` is not in the registry.
  const Json& value(std::string_view name) const;
  const Origin& origin(std::string_view name) const;
  bool has(std::string_view name) const { return !value(name).is_null(); }
  /// Returns whether the value comes from a configuration file, an environment
  /// variable or a flag. False for defaults and for detected values.
  bool is_set_by_user(std::string_view name) const;
  bool is_from_command_line(std::string_view name) const;

  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  /// Returns the value as text; empty if the setting has no value.
  std::string text(std::string_view name) const;

  /// Applies the variables in `environment` that belong to settings.
  void apply(const Environment& environment);
  /// Sets `setting` to the value `text` of a flag. `flag` is the name of the
  /// flag with dashes, for error messages and for the origin.
  void apply_flag(
      const Setting& setting, const std::string& text, const std::string& flag);

 private:
  struct Entry {
    Json value;
    Origin origin;
  };
  const Entry& entry(std::string_view name) const;

  std::map<std::string, Entry, std::less<>> entries_;
};

/// Throws `ConfigError` if two settings contradict each other.
void check_contradictions(const Settings& settings);

/// Returns the text that a user would type for `value`.
std::string value_text(const Json& value);

}  // namespace accelerate
