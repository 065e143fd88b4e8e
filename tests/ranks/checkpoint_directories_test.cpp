// SPDX-License-Identifier: Apache-2.0
// Where checkpoints are saved, how they are named, and which ones are kept.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/staged_directory.h"
#include "support/message_of.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(SaveState, ReplacesACheckpointButNothingElse) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  const fs::path checkpoint = folder.path() / "here";
  run.accelerator.save_state(checkpoint);
  run.step();
  run.accelerator.save_state(checkpoint);
  EXPECT_EQ(read_manifest(checkpoint).step, 1);

  const fs::path taken = folder.path() / "taken";
  fs::create_directory(taken);
  std::ofstream(taken / "thesis.tex") << "years of work";
  EXPECT_THAT(
      message_of<IoError>([&] { run.accelerator.save_state(taken); }),
      HasSubstr("taken exists and is not a checkpoint"));
  EXPECT_TRUE(fs::exists(taken / "thesis.tex"));
  EXPECT_EQ(
      files_of(folder.path()), (std::vector<std::string>{"here", "taken"}));
}

TEST(SaveState, RemovesLeftoversOfDeadWriters) {
  const TemporaryDirectory folder;
  const fs::path checkpoints = folder.path() / "checkpoints";
  fs::create_directories(checkpoints / "checkpoint.tmp-dead42");
  std::ofstream(checkpoints / "checkpoint.tmp-dead42" / ".lock") << "";
  const StagedDirectory alive(checkpoints);

  save_one_checkpoint(folder.path());

  EXPECT_FALSE(fs::exists(checkpoints / "checkpoint.tmp-dead42"));
  EXPECT_TRUE(fs::exists(alive.path()));
}

/// Runs with a limit on the number of checkpoints, which are numbered from 0.
/// Returns the paths of all saves, including checkpoints that were removed.
std::vector<fs::path> save_some(const fs::path& folder, int limit, int saves) {
  Accelerator accelerator(
      PartialState(Group()),
      {.project_config = ProjectConfiguration{
           .project_dir = folder,
           .automatic_checkpoint_naming = true,
           .total_limit = limit}});
  torch::nn::Linear net(3, 2);
  accelerator.prepare(net);
  std::vector<fs::path> paths;
  for (int i = 0; i < saves; ++i) {
    paths.push_back(accelerator.save_state({.blocking = i % 2 == 0}));
    accelerator.wait_for_checkpoint();
    EXPECT_TRUE(fs::exists(paths.back())) << paths.back();
  }
  return paths;
}

// A run that loads no checkpoint would start at number 0, and its checkpoints
// would be removed as the oldest instead of the checkpoints of an earlier run.
TEST(TotalLimit, ContinuesTheNumbersOfExistingCheckpoints) {
  for (const int limit : {1, 2}) {
    const TemporaryDirectory folder;
    save_some(folder.path(), limit, 3);
    const auto paths = save_some(folder.path(), limit, 2);
    EXPECT_EQ(paths[0].filename(), "checkpoint_3");
    EXPECT_EQ(paths[1].filename(), "checkpoint_4");
    EXPECT_EQ(
        list_checkpoints(folder.path() / "checkpoints").size(),
        static_cast<std::size_t>(limit));
  }
}

TEST(TotalLimit, KeepsTheNewOneWhenOthersAreDamaged) {
  const TemporaryDirectory folder;
  for (const fs::path& path : save_some(folder.path(), 2, 2)) {
    flip_bit(
        path / "model.safetensors",
        fs::file_size(path / "model.safetensors") - 1);
  }
  const fs::path checkpoint = save_some(folder.path(), 2, 1)[0];

  EXPECT_TRUE(verify_checkpoint(checkpoint, read_manifest(checkpoint)).empty());
}

TEST(Pruning, CountsOnlyUndamagedCheckpointsWithChecksums) {
  const TemporaryDirectory folder;
  const auto paths = save_some(folder.path(), 9, 3);
  flip_bit(
      paths[2] / "model.safetensors",
      fs::file_size(paths[2] / "model.safetensors") - 1);

  const auto removed = prune_checkpoints(
      folder.path() / "checkpoints", {.keep = 1, .checksums = true});

  EXPECT_EQ(removed, std::vector<fs::path>{paths[0]});
  EXPECT_TRUE(fs::exists(paths[1]));
  EXPECT_TRUE(fs::exists(paths[2]));
}

TEST(Pruning, KeepsLinksAndTheirTargets) {
  const TemporaryDirectory folder;
  const TemporaryDirectory elsewhere;
  const fs::path best = save_one_checkpoint(elsewhere.path());
  save_some(folder.path(), 9, 2);
  const fs::path link = folder.path() / "checkpoints" / "checkpoint_best";
  fs::create_directory_symlink(best, link);

  save_some(folder.path(), 1, 1);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(verify_checkpoint(best, read_manifest(best)).empty());

  remove_folder(link);
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  EXPECT_TRUE(verify_checkpoint(best, read_manifest(best)).empty());
}

// `save_state(folder)` writes next to the user's own folders.
TEST(SaveState, KeepsFoldersWithSimilarNames) {
  const TemporaryDirectory folder;
  for (const char* name :
       {"thesis.tmp-old", "checkpoint.tmp-", "a.tmp-removed-b"}) {
    fs::create_directory(folder.path() / name);
    std::ofstream(folder.path() / name / ".lock") << "";
    std::ofstream(folder.path() / name / "work.txt") << "years";
  }

  SingleProcessRun run(folder.path());
  run.accelerator.save_state(folder.path() / "c");

  for (const char* name :
       {"thesis.tmp-old", "checkpoint.tmp-", "a.tmp-removed-b"}) {
    EXPECT_TRUE(fs::exists(folder.path() / name / "work.txt")) << name;
  }
}

TEST(SaveEvery, SavesEveryFewSteps) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  auto save = run.accelerator.save_every({.steps = 3, .blocking = true});
  std::vector<bool> saved;
  for (int step = 0; step < 7; ++step) {
    run.step();
    saved.push_back(save());
  }

  EXPECT_EQ(
      saved,
      (std::vector<bool>{false, false, true, false, false, true, false}));
  std::vector<std::int64_t> steps;
  for (const auto& entry : list_checkpoints(folder.path() / "checkpoints")) {
    steps.push_back(entry.manifest->step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 6}));
}

TEST(SaveEvery, SavesWhenTheTimeHasPassed) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  auto at_once = run.accelerator.save_every({.minutes = 1e-9});
  auto not_today = run.accelerator.save_every({.minutes = 1e6});

  EXPECT_FALSE(not_today());
  EXPECT_TRUE(at_once());
  run.accelerator.wait_for_checkpoint();
  EXPECT_EQ(list_checkpoints(folder.path() / "checkpoints").size(), 1U);
}

TEST(SaveEvery, RefusesInvalidOptions) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  const auto message = [&](const SaveEveryOptions& options) {
    return message_of<ArgumentError>(
        [&] { static_cast<void>(run.accelerator.save_every(options)); });
  };
  EXPECT_THAT(message({}), HasSubstr("got neither `steps` nor `minutes`"));
  EXPECT_THAT(message({.steps = 0}), HasSubstr("`steps` is 0"));
  EXPECT_THAT(message({.minutes = -1}), HasSubstr("`minutes` is -1"));
}

struct BadProject {
  AcceleratorOptions options;
  const char* text;
};

TEST(ProjectConfiguration, RefusesInvalidOptions) {
  const std::vector<BadProject> cases{
      {{.project_config = ProjectConfiguration{.iteration = -1}},
       "`ProjectConfiguration::iteration` is -1"},
      {{.project_config =
            ProjectConfiguration{
                .project_dir = "x",
                .automatic_checkpoint_naming = true,
                .total_limit = 0}},
       "`ProjectConfiguration::total_limit` is 0"},
      {{.project_config = ProjectConfiguration{.total_limit = 2}},
       "total_limit` is set without `automatic_checkpoint_naming`"},
      {{.project_config =
            ProjectConfiguration{.automatic_checkpoint_naming = true}},
       "automatic_checkpoint_naming` is set without `project_dir`"},
      {{.project_dir = "a",
        .project_config = ProjectConfiguration{.project_dir = "b"}},
       "`project_dir` is a, but `project_config.project_dir` is b"},
  };
  for (const auto& [options, text] : cases) {
    EXPECT_THAT(
        message_of<ArgumentError>([&] {
          const Accelerator accelerator{PartialState(Group()), options};
        }),
        HasSubstr(text));
  }
  Accelerator plain{PartialState(Group()), {}};
  EXPECT_THAT(
      message_of<StateError>([&] { plain.save_state(); }),
      HasSubstr("no folder was given"));
  EXPECT_THAT(
      message_of<StateError>([&] { plain.load_state(); }),
      HasSubstr("no folder was given"));
  EXPECT_THAT(
      message_of<Error>([&] { plain.load_state("/nowhere"); }),
      HasSubstr("/nowhere"));
}

TEST(ProjectConfiguration, UsesTheProjectFolderForLogsByDefault) {
  const Accelerator left_out{PartialState(Group()), {.project_dir = "project"}};
  EXPECT_EQ(left_out.logging_dir(), "project");
  EXPECT_EQ(left_out.project_dir(), "project");

  const Accelerator configured{
      PartialState(Group()),
      {.project_config = ProjectConfiguration{
           .project_dir = "project", .logging_dir = "logs", .iteration = 4}}};
  EXPECT_EQ(configured.logging_dir(), "logs");
  EXPECT_EQ(configured.project_dir(), "project");
  EXPECT_EQ(configured.save_iteration(), 4);
}

}  // namespace
}  // namespace accelerate
