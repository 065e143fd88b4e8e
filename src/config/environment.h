// SPDX-License-Identifier: Apache-2.0
// The one place that reads environment variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace accelerate {

/// The environment variables of a process, as they were at one moment.
///
/// A value type: tests build one from a map, `of_this_process` copies the real
/// one. A variable that is set to the empty string counts as not set.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables);

  static Environment of_this_process();

  bool has(const std::string& name) const { return get(name).has_value(); }
  std::optional<std::string> get(const std::string& name) const;

  /// Returns the variable as a whole number.
  ///
  /// Throws `ConfigError` that names variable, value and range when it is not
  /// a number between `least` and `most`.
  std::optional<std::int64_t> get_integer(
      const std::string& name,
      std::int64_t least = 0,
      std::int64_t most = INT32_MAX) const;

  /// Returns the variable as a truth value: y/yes/t/true/on/1 or
  /// n/no/f/false/off/0 in any case. Throws `ConfigError` otherwise.
  std::optional<bool> get_flag(const std::string& name) const;

  const std::map<std::string, std::string>& variables() const {
    return variables_;
  }

 private:
  std::map<std::string, std::string> variables_;
};

/// Parses the truth values of `Environment::get_flag`; empty when `text` is
/// none of them.
std::optional<bool> parse_truth_value(const std::string& text);

}  // namespace accelerate
