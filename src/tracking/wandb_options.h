// SPDX-License-Identifier: Apache-2.0
// What a run of Weights & Biases is called, and where its files are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "config/environment.h"

namespace accelerate {

/// The options of `wandb.init` that the tracker supports. An option that was
/// not set is empty.
struct WandbOptions {
  bool disabled = false;
  std::filesystem::path folder;  ///< Contains the folders of the runs.
  std::string project;
  std::string id;
  std::string name;
  std::string entity;
  std::string notes;
  std::string group;
  std::string job_type;
  std::vector<std::string> tags;
};

/// Returns the names of the options that `init_kwargs` may contain.
const std::vector<std::string>& wandb_kwargs();

/// Returns the options of a run: from `setup.kwargs`, or from W&B's environment
/// variables. Throws `ArgumentError` for options that W&B would refuse.
WandbOptions wandb_options(
    const TrackerSetup& setup, const Environment& environment);

/// Returns `project`, with each character that W&B forbids replaced by its
/// code: `/` becomes `_x2F_`.
std::string wandb_project(const std::string& project);

}  // namespace accelerate
