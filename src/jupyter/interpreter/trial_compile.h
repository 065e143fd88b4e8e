// SPDX-License-Identifier: Apache-2.0
// Checks in a forked process whether a cell compiles.
#pragma once

#include <string>

#include "jupyter/interpreter/clang_bridge.h"

namespace accelerate::jupyter {

struct TrialResult {
  bool failed = false;
  std::string messages;
};

/// Compiles `code` in a forked copy of this process. If `undo` is true, the
/// copy first removes the definitions of the previous cell. The fork is
/// necessary because a failed compilation in the interpreter itself would
/// remove the names that `code` tried to redefine.
TrialResult trial_compile(
    ClangBridge& clang, const std::string& code, bool undo);

/// Returns whether all errors in `messages` are redefinitions of names that
/// `previous_cell` defined.
bool only_redefines(
    const std::string& messages, const std::string& previous_cell);

}  // namespace accelerate::jupyter
