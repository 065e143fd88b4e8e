// SPDX-License-Identifier: Apache-2.0
// What every tracker that writes files must accept.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "tracking/registry.h"
#include "tracking/run_curves.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

/// Starts a tracker of a project whose name would lead out of the folder.
std::shared_ptr<GeneralTracker> tracker_in(
    const TemporaryDirectory& folder, const std::string& name) {
  auto tracker = make_tracker(name);
  tracker->start(
      {.project = "../team/project",
       .run = "run",
       .logging_dir = folder.path() / "logs",
       .kwargs = {}});
  return tracker;
}

TrackedValues values_of(std::int64_t step, std::vector<TrackedEntry> entries) {
  return {
      .step = step,
      .time_us = now_us(),
      .entries = std::move(entries),
      .kwargs = {}};
}

std::vector<TrackedEntry> ten_thousand_entries() {
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), static_cast<double>(i)});
  }
  return entries;
}

class BadInput : public testing::TestWithParam<const char*> {};

// `read_runs` reads the files of these trackers.
class BadInputOfReadableFiles : public BadInput {};

TEST_P(BadInput, LeavesNothingOutsideTheFolder) {
  const TemporaryDirectory folder;
  const auto tracker = tracker_in(folder, GetParam());
  tracker->log(values_of(0, {{"../../../key", 1.0}}));
  tracker->finish();

  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().filename(), "logs");
  }
  EXPECT_FALSE(fs::exists(folder.path().parent_path() / "team"));
}

TEST_P(BadInputOfReadableFiles, HasTenThousandKeys) {
  const TemporaryDirectory folder;
  const auto tracker = tracker_in(folder, GetParam());
  tracker->log(values_of(0, ten_thousand_entries()));
  tracker->log(values_of(1, ten_thousand_entries()));
  tracker->finish();

  const auto runs = read_runs(folder.path());

  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].curves.size(), 10000U);
  EXPECT_THAT(runs[0].curves.at("key/9999").steps, ElementsAre(0, 1));
  EXPECT_THAT(runs[0].curves.at("key/9999").values, ElementsAre(9999, 9999));
}

TEST_P(BadInputOfReadableFiles, HasNumbersThatAreNotFinite) {
  const TemporaryDirectory folder;
  const auto tracker = tracker_in(folder, GetParam());
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  tracker->log(values_of(0, {{"x", std::nan("")}}));
  tracker->log(values_of(1, {{"x", kInfinite}}));
  tracker->log(values_of(2, {{"x", -kInfinite}}));
  tracker->finish();

  const auto values = read_runs(folder.path()).at(0).curves.at("x").values;

  EXPECT_THAT(values, ElementsAre(testing::IsNan(), kInfinite, -kInfinite));
}

TEST_P(BadInputOfReadableFiles, HasAStepThatGoesBack) {
  const TemporaryDirectory folder;
  const auto tracker = tracker_in(folder, GetParam());
  tracker->log(values_of(5, {{"x", 5.0}}));
  tracker->log(values_of(3, {{"x", 3.0}}));
  tracker->finish();

  const Curve curve = read_runs(folder.path()).at(0).curves.at("x");

  EXPECT_THAT(curve.steps, ElementsAre(3, 5));
  EXPECT_THAT(curve.values, ElementsAre(3, 5));
}

INSTANTIATE_TEST_SUITE_P(
    Trackers,
    BadInput,
    testing::Values("csv", "jsonl", "tensorboard", "wandb"));
INSTANTIATE_TEST_SUITE_P(
    Trackers,
    BadInputOfReadableFiles,
    testing::Values("csv", "jsonl", "tensorboard"));

}  // namespace
}  // namespace accelerate
