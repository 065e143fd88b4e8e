// SPDX-License-Identifier: Apache-2.0
// The only code that reads environment variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace accelerate {

/// A snapshot of the environment variables of a process.
///
/// Tests can build a snapshot from a map; `of_this_process` copies the
/// environment of this process. A variable that is set to the empty string is
/// treated as unset.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables);

  static Environment of_this_process();

  bool has(const std::string& name) const { return get(name).has_value(); }
  std::optional<std::string> get(const std::string& name) const;

  /// Returns the variable as a whole number, or nothing if the variable is
  /// unset.
  ///
  /// Throws `ConfigError` with the variable, value and range if the value is
  /// not a number from `minimum` to `maximum`.
  std::optional<std::int64_t> get_integer(
      const std::string& name,
      std::int64_t minimum = 0,
      std::int64_t maximum = INT32_MAX) const;

  /// Returns the variable as a boolean, or nothing if the variable is unset.
  /// Accepts y/yes/t/true/on/1 and n/no/f/false/off/0 in upper or lower case.
  /// Throws `ConfigError` for any other value.
  std::optional<bool> get_flag(const std::string& name) const;

  const std::map<std::string, std::string>& variables() const {
    return variables_;
  }

 private:
  std::map<std::string, std::string> variables_;
};

/// Parses `text` as a boolean, like `Environment::get_flag`. Returns nothing if
/// `text` is not a boolean.
std::optional<bool> parse_boolean(const std::string& text);

}  // namespace accelerate
