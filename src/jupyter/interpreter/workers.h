// SPDX-License-Identifier: Apache-2.0
// Support for `notebook_launcher` in a cell. Its workers are new interpreters
// that repeat the cells up to the call to `notebook_launcher`.
#pragma once

#include <string>
#include <vector>

namespace accelerate::jupyter {

/// The notebook that this interpreter runs, with the cells that workers must
/// repeat.
struct Notebook {
  std::string accelerate;  ///< The path of the `accelerate` command.
  std::string kernel;      ///< The program that starts interpreters.
  std::vector<std::string> cells;
  std::string current;

  bool is_worker = false;
  /// In a worker: at which call to `notebook_launcher` in the current cell,
  /// counted from 0, the worker joins the launch; -1 while the worker repeats
  /// earlier cells.
  int target = -1;
  int launches = 0;  ///< Calls to `notebook_launcher` so far in this cell.
};

Notebook& notebook();

/// Redirects stdout to /dev/null if `muted` is true, otherwise restores stdout.
/// A worker mutes stdout while it repeats cells.
void mute_stdout(bool muted);

}  // namespace accelerate::jupyter
