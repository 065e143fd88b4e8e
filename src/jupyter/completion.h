// SPDX-License-Identifier: Apache-2.0
// Completes names with the help of the compiler.
#pragma once

#include <string>
#include <vector>

#include "jupyter/interpreter_command.h"

namespace accelerate::jupyter {

struct Completion {
  std::vector<std::string> matches;
  /// A match replaces the bytes [begin, end) of the code.
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the completions at byte `cursor` of `code`. `cells` are the previous
/// cells. Runs the compiler in a separate process, so the state of the
/// interpreter does not change. Returns no matches if the compiler takes longer
/// than 15 s or if the precompiled header does not exist yet.
Completion complete(
    const InterpreterSetup& setup,
    const std::vector<std::string>& cells,
    const std::string& code,
    std::size_t cursor);

/// Returns the names in clang's `-code-completion-at` output that start with
/// `prefix`, without duplicates.
std::vector<std::string> parse_completions(
    const std::string& output, const std::string& prefix);

}  // namespace accelerate::jupyter
