// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "tracking/run_files.h"
#include "tracking/wandb_tracker.h"
#include "unit/tracking/wandb_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(WandbResume, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  WandbTracker killed;
  killed.start(wandb_setup(folder, Json::object({{"id", "abc"}})));
  std::int64_t saved_at = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const TrackedValues values = wandb_values(step, {{"loss", 1.0}});
    killed.log(values);
    saved_at = step == 2 ? values.time_us : saved_at;
  }
  killed.flush();
  const fs::path path = wandb_run_file(folder);
  // The process died in the middle of a record.
  std::ofstream(path, std::ios::app) << "\x18\x01\x02";

  WandbTracker resumed;
  resumed.start(wandb_setup(folder, Json::object({{"id", "abc"}})));
  resumed.store_init_configuration(Json::object({{"lr", 0.1}}));
  resumed.resume(killed.state_dict(), saved_at);
  resumed.log(wandb_values(2, {{"accuracy", 0.5}}));
  resumed.log(wandb_values(3, {{"loss", 2.0}}));
  resumed.finish();

  ASSERT_EQ(wandb_run_file(folder), path);
  const WandbFile file(path);
  EXPECT_THAT(
      file.steps_of("loss"), ElementsAre("0:1.0", "1:1.0", "2:1.0", "3:2.0"));
  EXPECT_THAT(file.steps_of("accuracy"), ElementsAre("2:0.5"));
  double runtime = 0;
  for (const auto& row : file.rows()) {
    EXPECT_GE(std::stod(row.at("_runtime")), runtime) << row.at("_step");
    runtime = std::stod(row.at("_runtime"));
  }
  EXPECT_EQ(file.of_kind(kWandbRun).size(), 1U);
  EXPECT_EQ(file.of_kind(kWandbConfig).size(), 1U);
}

TEST(WandbResume, ContinuesAnUploadedRunInAnotherFolder) {
  const TemporaryDirectory folder;
  WandbTracker uploaded;
  uploaded.start(wandb_setup(folder, Json::object({{"id", "abc"}})));
  uploaded.log(wandb_values(0, {{"once", 7.0}}));
  const TrackedValues saved = wandb_values(1, {{"loss", 1.0}});
  uploaded.log(saved);
  uploaded.log(wandb_values(2, {{"loss", 1.0}}));
  uploaded.finish();
  const fs::path path = wandb_run_file(folder);
  const std::string before = wandb_file_content(path);
  std::ofstream(path.string() + ".synced");

  Json state = uploaded.state_dict();
  for (std::int64_t attempt = 0; attempt < 2; ++attempt) {
    WandbTracker resumed;
    resumed.start(wandb_setup(folder));
    resumed.resume(state, saved.time_us + attempt);
    resumed.log(wandb_values(2, {{"loss", 2.0}}));
    resumed.log(wandb_values(3, {{"loss", 3.0}}));
    resumed.finish();
    state = resumed.state_dict();
  }

  EXPECT_EQ(wandb_file_content(path), before);
  const std::string run = state.at("run").as_string();
  EXPECT_NE(run, path.parent_path().filename());
  EXPECT_TRUE(run.ends_with("-abc"));
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder.path() / "wandb"), {}), 2);
  const WandbFile file(folder.path() / "wandb" / run / "run-abc.wandb");
  EXPECT_THAT(file.steps_of("loss"), ElementsAre("3:3.0"));
  EXPECT_THAT(file.of_kind(kWandbSummary).at(0), HasSubstr("once"));
}

TEST(WandbResume, ContinuesARunThatHadFinished) {
  const TemporaryDirectory folder;
  WandbTracker finished;
  finished.start(wandb_setup(folder));
  const TrackedValues saved = wandb_values(0, {{"loss", 1.0}});
  finished.log(saved);
  finished.finish();

  for (int attempt = 0; attempt < 3; ++attempt) {
    WandbTracker resumed;
    resumed.start(wandb_setup(folder));
    resumed.resume(finished.state_dict(), saved.time_us);
    resumed.log(wandb_values(1, {{"loss", 2.0}}));
    resumed.finish();
  }

  const WandbFile file(wandb_run_file(folder));
  EXPECT_THAT(file.steps_of("loss"), ElementsAre("0:1.0", "1:2.0"));
  EXPECT_EQ(file.of_kind(kWandbExit).size(), 1U);
}

TEST(WandbResume, KeepsTheFilesOfARowThatItMerges) {
  const TemporaryDirectory folder;
  WandbTracker killed;
  killed.start(wandb_setup(folder));
  TrackedImages images;
  images.time_us = now_us();
  images.entries.push_back({"picture", {{8, 4, "png"}}});
  killed.log_images(images);
  killed.flush();

  WandbTracker resumed;
  resumed.start(wandb_setup(folder));
  resumed.resume(killed.state_dict(), images.time_us);
  resumed.log(wandb_values(0, {{"loss", 2.0}}));
  resumed.finish();

  const WandbFile file(wandb_run_file(folder));
  ASSERT_EQ(file.rows().size(), 1U);
  EXPECT_TRUE(file.rows().at(0).contains("picture.sha256"));
  EXPECT_EQ(file.of_kind(kWandbFiles).size(), 1U);
}

TEST(WandbResume, NeverWritesOutsideItsFolder) {
  const TemporaryDirectory folder;
  const std::string run = "offline-run-20261119_041517-a";
  fs::create_directories(folder.path() / "wandb" / run);
  fs::create_directories(folder.path() / "outside");

  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  tracker.resume(Json::object({{"run", run + "/../../outside"}}), 0);
  tracker.log(wandb_values(0, {{"loss", 2.0}}));
  tracker.finish();

  EXPECT_TRUE(fs::is_empty(folder.path() / "outside"));
}

TEST(WandbResume, StartsAnotherRunIfTheStateNamesNoFolder) {
  for (const char* run : {"../elsewhere", "offline-run-", "", "wandb"}) {
    const TemporaryDirectory folder;
    WandbTracker tracker;
    tracker.start(wandb_setup(folder));
    tracker.resume(Json::object({{"run", run}}), 0);
    tracker.log(wandb_values(0, {{"loss", 2.0}}));
    tracker.finish();

    const WandbFile file(wandb_run_file(folder));
    EXPECT_THAT(file.steps_of("loss"), ElementsAre("0:2.0")) << run;
  }
}

}  // namespace
}  // namespace accelerate
