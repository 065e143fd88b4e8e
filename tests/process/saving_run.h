// SPDX-License-Identifier: Apache-2.0
// A run that saves, in a child of the test.
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
#include "folders/checkpoints.h"

namespace accelerate {

namespace fs = std::filesystem;

/// How a run saves.
struct SaveCase {
  int total_limit;
  int earlier;  ///< saves that went well before
  bool blocking;
  std::int64_t width = 3;
  /// Always under one name, in place of the last one.
  bool replaces = false;
  /// On a file system without flags for `renameat2`.
  bool without_flags = false;
  /// What is written at once may end in the middle.
  bool torn = false;
  /// A hook adds files of its own.
  bool hooks = false;
};

/// One process that trains a little and saves.
class SavingRun {
 public:
  SavingRun(const fs::path& folder, const SaveCase& how)
      : how_(how),
        folder_(folder),
        accelerator_(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true,
                     .total_limit = how.total_limit}}),
        net_(how.width, 2),
        optimizer_(net_->parameters(), 0.1) {
    accelerator_.prepare(net_, optimizer_);
    if (how.hooks) {
      hook_.emplace(accelerator_.register_save_state_pre_hook(
          [](auto&, const fs::path& place) {
            fs::create_directory(place / "adapter");
            std::ofstream(place / "adapter" / "notes.txt") << "8";
          }));
    }
  }

  void step() {
    accelerator_.backward(net_->forward(torch::ones({1, how_.width})).sum());
    optimizer_.step();
    optimizer_.zero_grad();
  }
  void save() {
    if (how_.replaces) {
      accelerator_.save_state(
          folder_ / "checkpoints" / "last", {.blocking = how_.blocking});
    } else {
      accelerator_.save_state({.blocking = how_.blocking});
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
  SaveCase how_;
  fs::path folder_;
  Accelerator accelerator_;
  torch::nn::Linear net_;
  AdamW optimizer_;
  std::optional<Region> hook_;
};

/// Runs `body` in a child; returns how it ended, as `waitpid` tells it.
inline int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // Nothing hangs for ever.
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

/// The steps of all whole checkpoints, every byte compared.
inline std::vector<std::int64_t> whole_steps(const fs::path& folder) {
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
