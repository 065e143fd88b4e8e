// SPDX-License-Identifier: Apache-2.0
// Questions to a person, or to a pipe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"

namespace accelerate {

/// Asks on stderr and reads stdin. On a terminal, choices are a menu for the
/// arrow keys that collapses to the answer; elsewhere each answer is a line.
/// At the end of input every question is answered by its default.
class Prompt {
 public:
  explicit Prompt(Console& console);

  /// Asks until `parse` accepts the answer; what it throws is shown.
  std::string ask(
      const std::string& question,
      const std::string& default_answer,
      const std::function<void(const std::string&)>& parse);

  /// Returns one of `choices`.
  std::string choose(
      const std::string& question,
      const std::vector<std::string>& choices,
      const std::string& default_choice);

 private:
  std::optional<std::string> read_line();
  std::optional<char> read_byte();
  std::string choose_by_keys(
      const std::string& question,
      const std::vector<std::string>& choices,
      std::size_t selected);

  Console& console_;
  bool is_terminal_;
};

}  // namespace accelerate
