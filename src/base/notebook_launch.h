// SPDX-License-Identifier: Apache-2.0
// How `notebook_launcher` starts workers when it is called in a C++ notebook.
//
// The interpreter's process exports the function `accelerate_notebook_launch`.
// A process that does not export this function is not running a notebook.
#pragma once

#include <cstdint>

namespace accelerate {

struct NotebookLaunch {
  std::int32_t num_processes;
  /// If not 0, the workers use only the CPU.
  std::int32_t cpu;
  const char* mixed_precision;
};

/// Special return values of the function `accelerate_notebook_launch`. These
/// values tell `notebook_launcher` in a worker what to do. Any other return
/// value is the exit code of the workers.
enum NotebookRole : std::int32_t {
  kNotebookRepeated = -1,  ///< The worker replays an earlier call: do nothing.
  kNotebookWorker = -2,    ///< This call started the worker: run the function.
};

using NotebookLaunchFunction = std::int32_t (*)(const NotebookLaunch*);
/// The symbol under which the interpreter process exports its
/// `NotebookLaunchFunction`.
inline constexpr char kNotebookLaunchSymbol[] = "accelerate_notebook_launch";

/// In a notebook, a progress bar writes each of its states between these two
/// strings. Both strings contain an escape code that terminals ignore; the
/// first string also clears the line. The notebook kernel shows all states as a
/// single output, which the kernel updates.
inline constexpr char kNotebookBarBegin[] = "\r\x1b[K\x1b_";
inline constexpr char kNotebookBarEnd[] = "\x1b\\";

}  // namespace accelerate
