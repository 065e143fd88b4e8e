// SPDX-License-Identifier: Apache-2.0
// The values in force, each with where it came from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "accelerate/json.h"
#include "config/environment.h"
#include "config/setting.h"

namespace accelerate {

/// Where a value came from.
struct Origin {
  enum class Kind { built_in, found, file, environment, command_line };

  Kind kind = Kind::built_in;
  /// "default_config.yaml:7", "OMP_NUM_THREADS", "--cpu", "2 GPUs".
  std::string where;

  /// "default", "found: 2 GPUs", "--cpu": what `explain` prints.
  std::string text() const;
};

/// One value for each setting of the registry, or none.
///
/// Starts with the defaults. Sources are applied from weak to strong: files,
/// then the environment, then flags; each overwrites what was there.
class Settings {
 public:
  Settings();

  void set(std::string_view name, Json value, Origin origin);

  /// Null where nothing gave a value. Throws `InternalError` for a name that is
  /// not in the registry.
  const Json& value(std::string_view name) const;
  const Origin& origin(std::string_view name) const;
  bool has(std::string_view name) const { return !value(name).is_null(); }
  /// Whether a user said so, in a file, the environment or a flag.
  bool is_given(std::string_view name) const;
  bool is_typed(std::string_view name) const;

  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  /// The value as text; empty where there is none.
  std::string text(std::string_view name) const;

  /// Takes what the environment's variables say.
  void apply(const Environment& environment);
  /// Takes one flag's text; `flag` is as typed, with its dashes.
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

/// Throws `ConfigError` where two values exclude each other.
void check_contradictions(const Settings& settings);

/// A value as a user would type it.
std::string value_text(const Json& value);

}  // namespace accelerate
