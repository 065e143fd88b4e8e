// SPDX-License-Identifier: Apache-2.0
// Several processes from inside one program.
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
  /// The whole run may take this long.
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

/// Runs `function` in forked processes of this host, on the CPU, and returns
/// when all have ended.
///
/// Throws `StateError` when forking is not safe any more, because this process
/// has a `PartialState` or threads (OpenMP and autograd make some); otherwise
/// `DistributedError` with the rank that failed first and what it threw, after
/// the others were stopped.
ACCELERATE_API void debug_launcher(
    const std::function<void()>& function,
    const DebugLauncherOptions& options = {});

struct NotebookLauncherOptions {
  /// Left out: one for each GPU, or without any one for every four cores, at
  /// most eight. More than there are GPUs train on the CPU. What was chosen
  /// is said on the standard error.
  std::optional<int> num_processes = std::nullopt;
  /// `no`, `fp16` or `bf16`.
  std::string mixed_precision = "no";
  /// The whole run may take this long.
  std::chrono::milliseconds timeout = std::chrono::hours(24);
};

namespace detail {
ACCELERATE_API void run_notebook_function(
    const std::function<void()>& function,
    const NotebookLauncherOptions& options);
}  // namespace detail

/// Trains from a notebook, or from the middle of any program: calls
/// `function(args...)` in several processes of this host and returns when all
/// have ended.
///
///     void training_function(int epochs);
///     accelerate::notebook_launcher(
///         training_function, std::tuple(3), {.num_processes = 2});
///
/// In a program the processes are forked, so that this is for the time before
/// the first thread: `StateError` when this process has a `PartialState` or
/// threads (OpenMP, autograd and CUDA make some). In a C++ notebook they are
/// fresh interpreters that repeat the cells before this call, so that it works
/// at any time.
///
/// Throws `DistributedError` with the rank that failed first and what it threw,
/// after the others were stopped; `UnsupportedError` for `fp16` without a GPU
/// for each process.
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
