// SPDX-License-Identifier: Apache-2.0
// `notebook_launcher` from a cell: workers are fresh interpreters that repeat
// the cells up to that call.
#pragma once

#include <string>
#include <vector>

namespace accelerate::jupyter {

/// What this interpreter is, and what its workers have to repeat.
struct Notebook {
  std::string accelerate;  ///< The command.
  std::string kernel;      ///< The program that starts interpreters.
  std::vector<std::string> cells;
  std::string current;

  /// Nothing in the notebook itself. In a worker: the launch it is for,
  /// counted from 0 within the current cell; -1 while it repeats earlier ones.
  bool is_worker = false;
  int target = -1;
  int launches = 0;  ///< Of the current cell.
};

Notebook& notebook();

/// In a worker, what it repeats prints nothing: points the standard output to
/// nowhere, or back.
void silence(bool silent);

}  // namespace accelerate::jupyter
