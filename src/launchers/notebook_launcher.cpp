// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include <dlfcn.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "accelerate/launchers.h"
#include "accelerate/partial_state.h"
#include "base/cpu_cores.h"
#include "base/message.h"
#include "base/notebook_launch.h"
#include "base/str_cat.h"
#include "launchers/forked_ranks.h"
#include "launchers/notebook_processes.h"

namespace accelerate {
namespace {

void check_options(const NotebookLauncherOptions& options) {
  constexpr std::array<std::string_view, 3> kPrecisions = {
      "no", "fp16", "bf16"};
  if (std::find(
          kPrecisions.begin(), kPrecisions.end(), options.mixed_precision) ==
      kPrecisions.end()) {
    throw ArgumentError(str_cat(
        "mixed_precision is `",
        options.mixed_precision,
        "`, but must be one of no, fp16, bf16"));
  }
  if (options.num_processes && *options.num_processes < 1) {
    throw ArgumentError(
        str_cat("num_processes is ", *options.num_processes), "pass 1 or more");
  }
}

void check_gpus(
    const NotebookLauncherOptions& options,
    const NotebookProcesses& processes,
    int gpus) {
  if (options.mixed_precision != "fp16" || !processes.cpu) {
    return;
  }
  throw UnsupportedError(
      str_cat(
          "`fp16` needs one GPU per process, but this run has ",
          processes.count,
          processes.count == 1 ? " process and " : " processes and ",
          gpus,
          gpus == 1 ? " GPU" : " GPUs"),
      gpus == 0   ? "use `bf16`, or `no`"
      : gpus == 1 ? "use `bf16`, or one process"
                  : str_cat("use `bf16`, or at most ", gpus, " processes"));
}

// Exits after the function: the worker must not run the rest of the cell.
[[noreturn]] void run_as_worker(const std::function<void()>& function) {
  function();
  PartialState::reset();
  std::cout << std::flush;
  std::fflush(nullptr);
  ::_exit(0);
}

void run_in_notebook(
    NotebookLaunchFunction launch_function,
    const std::function<void()>& function,
    const NotebookLaunch& launch) {
  const std::int32_t answer = launch_function(&launch);
  if (answer == kNotebookWorker) {
    run_as_worker(function);
  }
  if (answer != kNotebookRepeated && answer != 0) {
    throw DistributedError(
        str_cat(
            "the workers started by notebook_launcher failed with exit code ",
            answer),
        "see the error from the rank that failed first, printed above");
  }
}

}  // namespace

void detail::run_notebook_function(
    const std::function<void()>& function,
    const NotebookLauncherOptions& options) {
  check_options(options);
  const int gpus = count_gpus(Environment::of_this_process());
  const auto processes = choose_processes(
      options.num_processes, gpus, static_cast<int>(allowed_cpus().size()));
  check_gpus(options, processes, gpus);
  // POSIX allows casting the pointer from dlsym to a function pointer.
  const auto launch_function = reinterpret_cast<NotebookLaunchFunction>(
      ::dlsym(RTLD_DEFAULT, kNotebookLaunchSymbol));
  if (!processes.notice.empty()) {
    print_line("notebook_launcher: " + processes.notice);
  }
  if (launch_function != nullptr) {
    run_in_notebook(
        launch_function,
        function,
        {processes.count,
         processes.cpu ? 1 : 0,
         options.mixed_precision.c_str()});
    return;
  }
  run_forked(
      function,
      {.launcher = "notebook_launcher",
       .num_processes = processes.count,
       .cpu = processes.cpu,
       .mixed_precision = options.mixed_precision,
       .timeout = options.timeout});
}

}  // namespace accelerate
