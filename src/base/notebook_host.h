// SPDX-License-Identifier: Apache-2.0
// How `notebook_launcher` asks the interpreter of a C++ notebook for workers.
//
// The interpreter's process exports one function under `kNotebookHost`; where
// there is none, this is no notebook.
#pragma once

#include <cstdint>

namespace accelerate {

struct NotebookLaunch {
  std::int32_t num_processes;
  /// Keep to the CPU.
  std::int32_t cpu;
  const char* mixed_precision;
};

/// What a call of the launcher is. Any other answer is the exit code of the
/// workers that were started, and have ended.
enum NotebookRole : std::int32_t {
  kNotebookRepeated = -1,  ///< A worker repeats an earlier call: do nothing.
  kNotebookWorker = -2,    ///< The call this worker is for: run the function.
};

using NotebookHost = std::int32_t (*)(const NotebookLaunch*);
inline constexpr char kNotebookHost[] = "accelerate_notebook_host";

}  // namespace accelerate
