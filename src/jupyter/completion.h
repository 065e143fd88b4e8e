// SPDX-License-Identifier: Apache-2.0
// What a name can become, asked of the compiler.
#pragma once

#include <string>
#include <vector>

#include "jupyter/interpreter_command.h"

namespace accelerate::jupyter {

struct Completion {
  std::vector<std::string> matches;
  std::size_t begin = 0;  ///< In bytes of the code: what a match replaces.
  std::size_t end = 0;
};

/// Completes `code` at the byte `cursor`, knowing the cells before. Runs the
/// compiler beside the interpreter, so that nothing is changed there; finds
/// nothing when that takes longer than 15 s, or while the precompiled header is
/// not there yet.
Completion complete(
    const InterpreterSetup& setup,
    const std::vector<std::string>& cells,
    const std::string& code,
    std::size_t cursor);

/// The names in what clang prints for `-code-completion-at` that begin with
/// `prefix`, each once.
std::vector<std::string> parse_completions(
    const std::string& output, const std::string& prefix);

}  // namespace accelerate::jupyter
