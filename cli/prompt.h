// SPDX-License-Identifier: Apache-2.0
// Asks questions on a terminal or through a pipe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"

namespace accelerate {

/// Asks questions on stderr and reads answers from stdin. On a terminal,
/// choices are shown as a menu that the user navigates with the arrow keys;
/// after a selection, the menu is replaced by the answer. All other answers,
/// and all answers from a pipe, are one line of input. After the end of input,
/// each question gets its default answer.
class Prompt {
 public:
  explicit Prompt(Console& console);

  /// Repeats `question` until `parse` accepts the answer, and returns the
  /// answer. `parse` rejects an answer by throwing an `Error`, which is
  /// printed; after the end of input, the error is thrown to the caller
  /// instead. An empty line selects `default_answer`.
  std::string ask(
      const std::string& question,
      const std::string& default_answer,
      const std::function<void(const std::string&)>& parse);

  /// Asks the user to choose one of `choices`, and returns the choice.
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
