// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/project_folders.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

ProjectConfiguration chosen_project(const AcceleratorOptions& options) {
  ProjectConfiguration project =
      options.project_config.value_or(ProjectConfiguration{});
  if (options.project_dir) {
    if (!project.project_dir.empty() &&
        project.project_dir != *options.project_dir) {
      throw ArgumentError(
          str_cat(
              "`project_dir` is ",
              options.project_dir->string(),
              ", but `project_config.project_dir` is ",
              project.project_dir.string()),
          "set `project_dir` only in `project_config`");
    }
    project.project_dir = *options.project_dir;
  }
  if (project.logging_dir.empty()) {
    project.logging_dir = project.project_dir;
  }
  return project;
}

void check_project(const ProjectConfiguration& project) {
  if (project.iteration < 0) {
    throw ArgumentError(
        str_cat("`ProjectConfiguration::iteration` is ", project.iteration),
        "pass 0 or more");
  }
  if (project.total_limit && *project.total_limit < 1) {
    throw ArgumentError(
        str_cat(
            "`ProjectConfiguration::total_limit` is ", *project.total_limit),
        "pass 1 or more, or leave it out to keep all checkpoints");
  }
  if (project.total_limit && !project.automatic_checkpoint_naming) {
    throw ArgumentError(
        "`ProjectConfiguration::total_limit` is set without "
        "`automatic_checkpoint_naming`",
        "set `automatic_checkpoint_naming`: `total_limit` uses the numbers in "
        "the checkpoint names to decide which checkpoints to delete");
  }
  if (project.automatic_checkpoint_naming && project.project_dir.empty()) {
    throw ArgumentError(
        "`ProjectConfiguration::automatic_checkpoint_naming` is set without "
        "`project_dir`",
        "set `project_dir` to the folder for checkpoints");
  }
}

}  // namespace

ProjectFolders::ProjectFolders(const AcceleratorOptions& options)
    : project_(chosen_project(options)) {
  check_project(project_);
}

fs::path ProjectFolders::checkpoints() const {
  if (!project_.automatic_checkpoint_naming) {
    throw StateError(
        "no folder was given, and `automatic_checkpoint_naming` is off",
        "pass a folder, or set ProjectConfiguration::project_dir and "
        "automatic_checkpoint_naming");
  }
  return project_.project_dir / "checkpoints";
}

Destination ProjectFolders::destination(const fs::path& folder) const {
  Destination to;
  to.iteration = project_.iteration;
  if (folder.empty()) {
    to.parent = checkpoints();
    to.name = str_cat("checkpoint_", project_.iteration);
    to.numbered = true;
    if (project_.total_limit) {
      to.keep = static_cast<std::size_t>(*project_.total_limit);
    }
    return to;
  }
  const fs::path full = fs::absolute(folder).lexically_normal();
  const fs::path plain = full.has_filename() ? full : full.parent_path();
  to.parent = plain.parent_path();
  to.name = plain.filename().string();
  if (to.name.empty()) {
    throw ArgumentError(
        str_cat(folder.string(), " cannot be a checkpoint folder"),
        "pass a folder that the checkpoint may replace");
  }
  return to;
}

void ProjectFolders::record_save(const SaveResult& saved) {
  if (project_.automatic_checkpoint_naming) {
    record_load(saved.iteration);
  }
}

void ProjectFolders::record_load(const std::int64_t iteration) {
  project_.iteration = std::max(project_.iteration, iteration + 1);
}

}  // namespace accelerate
