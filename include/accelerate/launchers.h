// SPDX-License-Identifier: Apache-2.0
// Starts several processes from inside one program.
//
//     accelerate::debug_launcher([] {
//       accelerate::PartialState state;
//       state.print("we are ", state.num_processes());
//     }, {.num_processes = 3});
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "accelerate/export.h"

namespace accelerate {

struct DebugLauncherOptions {
  int num_processes = 2;
  /// Time limit for the whole run.
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

/// Runs `function` in forked processes on this machine, on the CPU, and returns
/// when all of them have exited.
///
/// Throws `StateError` when it is no longer safe to fork, because this process
/// has a `PartialState` or several threads (OpenMP and autograd start threads).
/// When a rank fails, stops the other ranks and throws `DistributedError` with
/// the rank that failed first and its error.
ACCELERATE_API void debug_launcher(
    const std::function<void()>& function,
    const DebugLauncherOptions& options = {});

struct NotebookLauncherOptions {
  /// Default: one process per GPU; without a GPU, one process per four logical
  /// CPU cores, but at least one and at most eight processes. If there are more
  /// processes than GPUs, all processes train on the CPU. The choice is printed
  /// to stderr.
  std::optional<int> num_processes = std::nullopt;
  /// `no`, `fp16` or `bf16`.
  std::string mixed_precision = "no";
  /// Time limit for the whole run.
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

namespace detail {
ACCELERATE_API void run_notebook_function(
    const std::function<void()>& function,
    const NotebookLauncherOptions& options);
}  // namespace detail

/// Starts training from a notebook, or from inside any program: calls
/// `function(args...)` in several processes on this machine and returns when
/// all of them have exited.
///
///     void training_function(int epochs);
///     accelerate::notebook_launcher(
///         training_function, std::tuple(3), {.num_processes = 2});
///
/// In a program, the processes are forked. `notebook_launcher` therefore throws
/// `StateError` when this process already has a `PartialState` or several
/// threads (OpenMP, autograd and CUDA start threads). In a C++ notebook, each
/// process is a new interpreter that first repeats the cells before this call,
/// so the call works at any time.
///
/// When a rank fails, stops the other ranks and throws `DistributedError` with
/// the rank that failed first and its error. Throws `UnsupportedError` if
/// `mixed_precision` is `fp16` and there are fewer GPUs than processes.
template <typename Function, typename... Args>
void notebook_launcher(
    Function function,
    std::tuple<Args...> args,
    const NotebookLauncherOptions& options = {}) {
  detail::run_notebook_function(
      [&function, &args] { std::apply(function, args); }, options);
}

template <typename Function>
void notebook_launcher(
    Function function, const NotebookLauncherOptions& options = {}) {
  notebook_launcher(std::move(function), std::tuple<>(), options);
}

}  // namespace accelerate
