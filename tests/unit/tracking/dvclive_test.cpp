// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "tracking/dvclive_files.h"
#include "tracking/dvclive_tracker.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

// 2025-03-01 00:00:00 UTC.
constexpr std::int64_t kDvcBegin = 1740787200000000;

TrackerSetup dvc_setup(
    const TemporaryDirectory& folder, const std::string& run = "run-1") {
  return {
      .project = "project",
      .run = run,
      .logging_dir = {},
      .kwargs = Json::object(
          {{"dir", (folder.path() / "live").string()},
           {"dvcyaml", (folder.path() / "dvc.yaml").string()}})};
}

TrackedValues dvc_values(std::int64_t step, std::vector<TrackedEntry> entries) {
  return {
      .step = step,
      .time_us = kDvcBegin + step * 1000000,
      .entries = std::move(entries),
      .kwargs = {}};
}

void log_steps(DvcliveTracker& tracker, std::int64_t first, std::int64_t end) {
  for (std::int64_t step = first; step < end; ++step) {
    tracker.log(
        dvc_values(step, {{"train/loss", 10.0 - static_cast<double>(step)}}));
  }
  tracker.flush();
}

TEST(Dvclive, WritesATablePerKeyAndTheLastValues) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));
  tracker.log(dvc_values(0, {{"train/loss", 1.5}, {"epoch", std::int64_t{1}}}));
  tracker.log(dvc_values(
      1,
      {{"train/loss", 1e-5},
       {"done", true},
       {"note", std::string("a\t\"b\"\nc")},
       {"bad", std::numeric_limits<double>::quiet_NaN()},
       {"huge", -std::numeric_limits<double>::infinity()}}));
  tracker.flush();

  EXPECT_EQ(
      folder.read("live/plots/metrics/train/loss.tsv"),
      "timestamp\tstep\tloss\n"
      "1740787200000.000\t0\t1.5\n"
      "1740787201000.000\t1\t1e-05\n");
  EXPECT_THAT(
      folder.read("live/plots/metrics/done.tsv"), HasSubstr("\tTrue\n"));
  EXPECT_THAT(folder.read("live/plots/metrics/bad.tsv"), HasSubstr("\tnan\n"));
  EXPECT_THAT(
      folder.read("live/plots/metrics/note.tsv"),
      HasSubstr("\t\"a\t\"\"b\"\"\nc\"\n"));
  EXPECT_EQ(
      Json::parse(folder.read("live/metrics.json")),
      Json::object(
          {{"step", 1},
           {"train", Json::object({{"loss", 1e-5}})},
           {"epoch", 1},
           {"done", true},
           {"note", "a\t\"b\"\nc"},
           {"bad", "nan"},
           {"huge", "-inf"}}));
}

TEST(Dvclive, DescribesTheFilesForDvc) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));
  tracker.store_init_configuration(Json::object({{"lr", 0.1}}));
  log_steps(tracker, 0, 1);
  EXPECT_EQ(
      folder.read("dvc.yaml"),
      "params:\n- live/params.yaml\n"
      "metrics:\n- live/metrics.json\n"
      "plots:\n- live/plots/metrics:\n    x: step\n");

  TrackedImages images;
  images.step = 7;
  images.entries.push_back({"sample", {{1, 1, "one"}}});
  images.entries.push_back({"grid", {{1, 1, "two"}, {1, 1, "three"}}});
  tracker.log_images(images);
  tracker.finish();

  EXPECT_THAT(
      folder.read("dvc.yaml"), HasSubstr("    x: step\n- live/plots/images\n"));
  EXPECT_EQ(folder.read("live/plots/images/sample/7.png"), "one");
  EXPECT_EQ(folder.read("live/plots/images/grid/1/7.png"), "three");
}

TEST(Dvclive, LeavesADvcYamlOfTheUserAsItIs) {
  const TemporaryDirectory folder;
  const std::string text = "stages:\n  train:\n    cmd: ./train  # fast\n";
  folder.write("dvc.yaml", text);
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));

  testing::internal::CaptureStderr();
  log_steps(tracker, 0, 1);
  const std::string warning = testing::internal::GetCapturedStderr();

  EXPECT_EQ(folder.read("dvc.yaml"), text);
  EXPECT_THAT(warning, HasSubstr("add these lines"));
  EXPECT_THAT(warning, HasSubstr("metrics:\n- live/metrics.json\n"));
}

TEST(Dvclive, WritesTheConfigurationAsYaml) {
  EXPECT_EQ(
      dvc_yaml(Json::object(
          {{"lr", 1e-5},
           {"model", Json::object({{"name", "it's: \"x\"\n"}, {"layers", 2}})},
           {"sizes", Json::array({1, 2.5, Json::array({"a"})})},
           {"no", true},
           {"a key", nullptr},
           {"limit", std::numeric_limits<double>::infinity()},
           {"delete", "\x7f"},
           {"empty", Json::object()}})),
      "lr: 1.0e-05\n"
      "model:\n"
      "  name: \"it's: \\\"x\\\"\\n\"\n"
      "  layers: 2\n"
      "sizes: [1, 2.5, [\"a\"]]\n"
      "\"no\": true\n"
      "\"a key\": null\n"
      "limit: .inf\n"
      "delete: \"\\u007f\"\n"
      "empty: {}\n");
  EXPECT_EQ(dvc_yaml({}), "{}\n");
}

TEST(Dvclive, KeepsFilesOfHostileKeysInTheFolder) {
  EXPECT_EQ(dvc_path("train/loss", ".tsv"), "train/loss.tsv");
  EXPECT_EQ(dvc_path("../../x", ".tsv"), "%2E./%2E./x.tsv");
  EXPECT_EQ(dvc_path("/etc/x", ".tsv"), "%/etc/x.tsv");
  EXPECT_EQ(dvc_path("a//b", ".tsv"), "a/%/b.tsv");
  EXPECT_EQ(dvc_path("a/", ".tsv"), "a/%.tsv");
  // Not the file of key `a`.
  EXPECT_EQ(dvc_path("a.tsv/b", ".tsv"), "a.tsv%/b.tsv");
}

TEST(Dvclive, WritesKeysThatAreNamesOfItsOwnColumns) {
  EXPECT_EQ(dvc_header("a/loss"), "timestamp\tstep\tloss\n");
  EXPECT_EQ(dvc_header("step"), "timestamp\tstep\tvalue\n");
  EXPECT_EQ(dvc_header("a/step"), "timestamp\tstep\ta/step\n");
  EXPECT_EQ(dvc_header("a\tb"), "timestamp\tstep\t\"a\tb\"\n");
}

TEST(Dvclive, KeepsAKeyThatIsAlsoAGroupOfKeys) {
  Json summary = Json::object();
  set_dvc_summary(summary, "a", 1);
  set_dvc_summary(summary, "a/b", 2);
  set_dvc_summary(summary, "c/d", 3);
  set_dvc_summary(summary, "c", 4);

  EXPECT_EQ(
      summary,
      Json::object(
          {{"a", 1}, {"a/b", 2}, {"c", Json::object({{"d", 3}})}, {"c/", 4}}));
}

TEST(Dvclive, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  DvcliveTracker killed;
  killed.start(dvc_setup(folder));
  killed.store_init_configuration(Json::object({{"lr", 1}}));
  log_steps(killed, 0, 5);
  killed.log(dvc_values(5, {{"late", 1.0}, {"text", std::string("a\nb")}}));
  killed.flush();
  // The process died in the middle of a row.
  std::ofstream(
      folder.path() / "live/plots/metrics/train/loss.tsv", std::ios::app)
      << "17407872";

  DvcliveTracker resumed;
  resumed.start(dvc_setup(folder, "run-2"));
  resumed.store_init_configuration(Json::object({{"lr", 2}}));
  resumed.resume(killed.state_dict(), kDvcBegin + 2000000);
  resumed.flush();
  EXPECT_EQ(
      Json::parse(folder.read("live/metrics.json")),
      Json::object({{"step", 2}, {"train", Json::object({{"loss", 8.0}})}}));
  log_steps(resumed, 3, 4);
  resumed.finish();

  EXPECT_EQ(
      folder.read("live/plots/metrics/train/loss.tsv"),
      "timestamp\tstep\tloss\n"
      "1740787200000.000\t0\t10.0\n"
      "1740787201000.000\t1\t9.0\n"
      "1740787202000.000\t2\t8.0\n"
      "1740787203000.000\t3\t7.0\n");
  EXPECT_FALSE(fs::exists(folder.path() / "live/plots/metrics/late.tsv"));
  EXPECT_EQ(folder.read("live/params.yaml"), "lr: 2\n");
  EXPECT_EQ(resumed.state_dict(), killed.state_dict());
}

TEST(Dvclive, KeepsBothCallsOfTheMillisecondOfTheCheckpointApart) {
  const TemporaryDirectory folder;
  DvcliveTracker killed;
  killed.start(dvc_setup(folder));
  for (const std::int64_t microseconds : {1, 2}) {
    TrackedValues values = dvc_values(0, {{"loss", 1.0}});
    values.step = microseconds;
    values.time_us += microseconds;
    killed.log(values);
  }
  killed.flush();

  DvcliveTracker resumed;
  resumed.start(dvc_setup(folder));
  resumed.resume(killed.state_dict(), kDvcBegin + 1);

  EXPECT_EQ(
      folder.read("live/plots/metrics/loss.tsv"),
      "timestamp\tstep\tloss\n1740787200000.001\t1\t1.0\n");
}

TEST(Dvclive, LeavesTheFilesOfAnotherRunToThatRun) {
  const TemporaryDirectory folder;
  DvcliveTracker first;
  first.start(dvc_setup(folder, "first"));
  log_steps(first, 0, 3);
  DvcliveTracker second;
  second.start(dvc_setup(folder, "second"));

  // Only the first value replaces the previous run.
  second.flush();
  EXPECT_THAT(
      folder.read("live/plots/metrics/train/loss.tsv"), HasSubstr("\t2\t8.0"));
  second.resume(Json::object({{"run", "another"}}), kDvcBegin);
  log_steps(second, 7, 8);

  EXPECT_EQ(
      folder.read("live/plots/metrics/train/loss.tsv"),
      "timestamp\tstep\tloss\n1740787207000.000\t7\t3.0\n");
  EXPECT_EQ(second.state_dict(), Json::object({{"run", "second"}}));
}

TEST(Dvclive, LosesOnlyWhatAKilledProcessDidNotFlush) {
  const TemporaryDirectory folder;
  DvcliveTracker killed;
  killed.start(dvc_setup(folder));
  log_steps(killed, 0, 2);
  killed.log(dvc_values(2, {{"train/loss", 0.0}}));

  EXPECT_THAT(
      folder.read("live/plots/metrics/train/loss.tsv"),
      testing::EndsWith("\t1\t9.0\n"));
  EXPECT_EQ(Json::parse(folder.read("live/metrics.json")).at("step"), Json(1));
}

TEST(Dvclive, WritesAStepThatGoesBack) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));
  tracker.log(dvc_values(5, {{"loss", 0.5}}));
  tracker.log(dvc_values(3, {{"loss", 0.25}}));
  tracker.finish();

  EXPECT_EQ(
      folder.read("live/plots/metrics/loss.tsv"),
      "timestamp\tstep\tloss\n1740787205000.000\t5\t0.5\n"
      "1740787203000.000\t3\t0.25\n");
}

TEST(Dvclive, WritesTenThousandKeys) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), 1.0});
  }
  tracker.log(dvc_values(0, entries));
  tracker.log(dvc_values(1, entries));
  tracker.finish();

  EXPECT_EQ(
      folder.read("live/plots/metrics/key/9999.tsv"),
      "timestamp\tstep\t9999\n1740787200000.000\t0\t1.0\n"
      "1740787201000.000\t1\t1.0\n");
}

TEST(Dvclive, KeepsCompleteRowsWhenTheDiskIsFull) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));
  log_steps(tracker, 0, 1);
  const std::string before = folder.read("live/plots/metrics/train/loss.tsv");
  {
    const FileSizeLimit limit(before.size() + 10);
    EXPECT_THAT(
        message_of<IoError>([&] { log_steps(tracker, 1, 3); }),
        StartsWith("cannot write "));
    EXPECT_EQ(folder.read("live/plots/metrics/train/loss.tsv"), before);
  }

  log_steps(tracker, 3, 4);

  EXPECT_EQ(
      folder.read("live/plots/metrics/train/loss.tsv"),
      before + "1740787203000.000\t3\t7.0\n");
  EXPECT_EQ(Json::parse(folder.read("live/metrics.json")).at("step"), Json(3));
}

TEST(Dvclive, KeepsNumbersNextToAHistogramThatItCannotKeep) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  tracker.start(dvc_setup(folder));

  EXPECT_EQ(
      message_of<UnsupportedError>([&] {
        tracker.log(dvc_values(0, {{"h", Histogram{}}, {"loss", 0.5}}));
      }),
      "the tracker `dvclive` does not support histograms");
  tracker.finish();

  EXPECT_THAT(
      folder.read("live/plots/metrics/loss.tsv"), HasSubstr("\t0\t0.5\n"));
}

TEST(Dvclive, RefusesAFolderWithOtherFiles) {
  const TemporaryDirectory folder;
  folder.write("live/params.yaml", "lr: 1\n");
  DvcliveTracker tracker;

  EXPECT_THAT(
      message_of<ArgumentError>([&] { tracker.start(dvc_setup(folder)); }),
      testing::AllOf(
          StartsWith("tracker `dvclive` would overwrite "),
          HasSubstr("live/params.yaml, which no tracker wrote")));
  EXPECT_EQ(folder.read("live/params.yaml"), "lr: 1\n");
}

TEST(Dvclive, RejectsOptionsThatItDoesNotHave) {
  const TemporaryDirectory folder;
  DvcliveTracker tracker;
  TrackerSetup setup = dvc_setup(folder);
  setup.kwargs["dvcyaml"] = "pipeline.yaml";
  EXPECT_EQ(
      message_of<ArgumentError>([&] { tracker.start(setup); }),
      "option `dvcyaml` of tracker `dvclive` is `pipeline.yaml`, but DVC only "
      "reads files named `dvc.yaml`");
  setup.kwargs = Json::object({{"report", "html"}});
  EXPECT_EQ(
      message_of<ArgumentError>([&] { tracker.start(setup); }),
      "tracker `dvclive` has no option `report`");
}

}  // namespace
}  // namespace accelerate
