// SPDX-License-Identifier: Apache-2.0
// A training run that saves checkpoints, in a child process of the test.
#pragma once

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/optim.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {

namespace fs = std::filesystem;

/// The options of a training run that saves checkpoints.
struct SaveCase {
  int total_limit;
  int earlier;  ///< number of earlier successful saves
  bool blocking;
  std::int64_t width = 3;
  /// Whether each save has the same name and replaces the previous checkpoint.
  bool replaces = false;
  /// Whether to simulate a file system without `renameat2` flags.
  bool without_flags = false;
  /// Whether to split writes, as the system may do.
  bool partial_writes = false;
  /// Whether a hook adds its own files.
  bool hooks = false;
};

/// Trains for a few steps in one process and saves checkpoints.
class SavingRun {
 public:
  SavingRun(const fs::path& folder, const SaveCase& save_case)
      : save_case_(save_case),
        folder_(folder),
        accelerator_(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true,
                     .total_limit = save_case.total_limit}}),
        net_(save_case.width, 2),
        optimizer_(net_->parameters(), 0.1) {
    accelerator_.prepare(net_, optimizer_);
    if (save_case.hooks) {
      hook_.emplace(accelerator_.register_save_state_pre_hook(
          [](auto&, const fs::path& hooks) {
            fs::create_directory(hooks / "adapter");
            std::ofstream(hooks / "adapter" / "notes.txt") << "8";
          }));
    }
  }

  void step() {
    accelerator_.backward(
        net_->forward(torch::ones({1, save_case_.width})).sum());
    optimizer_.step();
    optimizer_.zero_grad();
  }
  void save() {
    if (save_case_.replaces) {
      accelerator_.save_state(
          folder_ / "checkpoints" / "last", {.blocking = save_case_.blocking});
    } else {
      accelerator_.save_state({.blocking = save_case_.blocking});
    }
    accelerator_.wait_for_checkpoint();
  }
  void step_and_save() {
    step();
    save();
  }
  void save_in_background() {
    step();
    accelerator_.save_state({.blocking = false});
  }
  void finish() { accelerator_.end_training(); }
  std::function<bool()> save_every(const SaveEveryOptions& options) {
    return accelerator_.save_every(options);
  }
  std::int64_t load() { return accelerator_.load_state().step; }

 private:
  SaveCase save_case_;
  fs::path folder_;
  Accelerator accelerator_;
  torch::nn::Linear net_;
  AdamW optimizer_;
  std::optional<Region> hook_;
};

/// Runs `body` in a child process. Returns the child's status in the format of
/// `waitpid`.
inline int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // Kills a child that hangs.
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    std::_Exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

inline bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

inline int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Returns the steps of all undamaged checkpoints. Compares every byte.
inline std::vector<std::int64_t> undamaged_steps(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  if (!fs::exists(folder / "checkpoints")) {
    return steps;
  }
  for (const auto& entry : list_checkpoints(folder / "checkpoints")) {
    if (entry.manifest &&
        verify_checkpoint(entry.path, *entry.manifest).empty()) {
      steps.push_back(entry.manifest->step);
    }
  }
  return steps;
}

}  // namespace accelerate
