// SPDX-License-Identifier: Apache-2.0
// Whether a cell compiles, found out in a process that is thrown away.
#pragma once

#include <string>

#include "jupyter/interpreter/clang_bridge.h"

namespace accelerate::jupyter {

struct Trial {
  bool failed = false;
  std::string messages;
};

/// Compiles `code` in a copy of this process, without the cell before when
/// `undo` says so. A failed attempt inside the interpreter would take names
/// away that the cell tried to define again.
Trial try_cell(ClangBridge& clang, const std::string& code, bool undo);

/// Whether all that `messages` complain about is that names of the cell
/// `before` are defined again.
bool redefines(const std::string& messages, const std::string& before);

}  // namespace accelerate::jupyter
