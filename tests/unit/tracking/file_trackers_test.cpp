// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/text.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "tracking/append_file.h"
#include "tracking/csv_tracker.h"
#include "tracking/json_lines_tracker.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TrackerSetup setup_in(
    const fs::path& folder, const std::string& run, Json kwargs = {}) {
  return {
      .project = "project",
      .run = run,
      .logging_dir = folder,
      .kwargs = std::move(kwargs)};
}

TrackedValues values_at(std::int64_t step, std::vector<TrackedEntry> entries) {
  TrackedValues values;
  values.step = step;
  // Later than the header, as in a run.
  values.time_us = now_us() + step * 1000000;
  values.entries = std::move(entries);
  return values;
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) {
      lines.push_back(Json::parse(line));
    }
  }
  return lines;
}

std::vector<std::int64_t> logged_steps(const std::string& text) {
  std::vector<std::int64_t> steps;
  for (const Json& line : lines_of(text)) {
    if (!line.contains("_type")) {
      steps.push_back(line.at("_step").as_integer());
    }
  }
  return steps;
}

std::vector<std::string> csv_steps(const std::string& text) {
  std::string_view rest = text;
  std::vector<std::string> cells;
  std::vector<std::string> steps;
  while (read_csv_row(rest, cells)) {
    steps.push_back(cells.front());
  }
  return steps;
}

TEST(RunFiles, MakesFileNamesOfAnyText) {
  EXPECT_EQ(file_name_of("bert base-1.5"), "bert base-1.5");
  EXPECT_EQ(file_name_of("team/bert"), "team%2Fbert");
  EXPECT_EQ(file_name_of("../x"), "%2E.%2Fx");
  EXPECT_EQ(file_name_of("a%2Fb"), "a%252Fb");
  EXPECT_EQ(file_name_of(""), "%");
  EXPECT_EQ(file_name_of(std::string("a\0b", 3)), "a%00b");
  EXPECT_EQ(file_name_of("größe"), "größe");
  const std::string long_name = file_name_of(std::string(5000, 'x'));
  EXPECT_LT(long_name.size(), 200U);
  EXPECT_NE(long_name, file_name_of(std::string(5001, 'x')));
}

TEST(AppendFile, KeepsCompleteEntriesWhenTheDiskIsFull) {
  const TemporaryDirectory folder;
  AppendFile file(folder.path() / "log");
  file.append("first\n");
  file.append("second\n");
  file.append("third\n");
  {
    const FileSizeLimit limit(16);
    EXPECT_THAT(
        message_of<IoError>([&] { file.flush(); }), StartsWith("cannot write"));
    EXPECT_EQ(folder.read("log"), "first\nsecond\n");
  }

  file.append("fourth\n");
  file.flush();

  EXPECT_EQ(folder.read("log"), "first\nsecond\nfourth\n");
}

TEST(JsonLines, WritesOneObjectPerCall) {
  const TemporaryDirectory folder;
  JsonLinesTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));
  tracker.store_init_configuration(Json::object({{"lr", kInfinity}}));

  tracker.log(values_at(
      3,
      {{"loss", 0.25},
       {"epoch", std::int64_t{1}},
       {"done", false},
       {"note", std::string("a \"b\"\n")},
       {"bad", kNan}}));
  tracker.flush();

  const auto lines = lines_of(folder.read("project/run/metrics.jsonl"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("_type").as_string(), "run");
  EXPECT_EQ(lines[0].at("project").as_string(), "project");
  EXPECT_EQ(lines[1].at("config").at("lr").as_string(), "Infinity");
  EXPECT_EQ(lines[2].at("_step").as_integer(), 3);
  EXPECT_EQ(lines[2].at("loss").as_double(), 0.25);
  EXPECT_EQ(lines[2].at("epoch").as_integer(), 1);
  EXPECT_FALSE(lines[2].at("done").as_bool());
  EXPECT_EQ(lines[2].at("note").as_string(), "a \"b\"\n");
  EXPECT_EQ(lines[2].at("bad").as_string(), "NaN");
}

TEST(JsonLines, WritesImagesIntoFilesWithinTheRun) {
  const TemporaryDirectory folder;
  JsonLinesTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));
  TrackedImages images;
  images.step = 7;
  images.entries.push_back({"../../x", {{1, 1, "png bytes"}}});

  tracker.log_images(images);
  tracker.flush();

  const auto lines = lines_of(folder.read("project/run/metrics.jsonl"));
  const std::string file = lines.at(1).at("files").at(0).as_string();
  EXPECT_EQ(file, "images/%2E.%2F..%2Fx/step-00000007-0.png");
  EXPECT_EQ(folder.read("project/run/" + file), "png bytes");
}

TEST(JsonLines, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  JsonLinesTracker killed;
  killed.start(setup_in(folder.path(), "first"));
  killed.store_init_configuration(Json::object({{"lr", 1}}));
  std::int64_t saved_at = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const TrackedValues values = values_at(step, {{"loss", 1.0}});
    killed.log(values);
    saved_at = step == 2 ? values.time_us : saved_at;
  }
  killed.flush();
  // The process died in the middle of a line.
  std::ofstream(folder.path() / "project/first/metrics.jsonl", std::ios::app)
      << "{\"_step\": 5, \"lo";

  JsonLinesTracker resumed;
  resumed.start(setup_in(folder.path(), "second"));
  resumed.store_init_configuration(Json::object({{"lr", 2}}));
  resumed.resume(killed.state_dict(), saved_at);
  resumed.log(values_at(3, {{"loss", 2.0}}));
  resumed.finish();

  const std::string text = folder.read("project/first/metrics.jsonl");
  EXPECT_THAT(logged_steps(text), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(text, HasSubstr("\"config\":{\"lr\":2}"));
  EXPECT_FALSE(fs::exists(folder.path() / "project/second"));
  EXPECT_EQ(resumed.state_dict().at("run").as_string(), "first");
}

// The thread of a tracker may write the configuration after the program has
// logged its first values.
TEST(JsonLines, KeepsStepsThatAreOlderThanTheLineOfTheConfiguration) {
  const TemporaryDirectory folder;
  JsonLinesTracker killed;
  killed.start(setup_in(folder.path(), "first"));
  const TrackedValues values = values_at(0, {{"loss", 1.0}});
  killed.store_init_configuration(Json::object({{"lr", 1}}));
  killed.log(values);
  killed.flush();

  JsonLinesTracker resumed;
  resumed.start(setup_in(folder.path(), "second"));
  resumed.resume(killed.state_dict(), values.time_us);
  resumed.finish();

  EXPECT_THAT(
      logged_steps(folder.read("project/first/metrics.jsonl")), ElementsAre(0));
}

TEST(JsonLines, RemovesLinesOfAnEarlierAttemptToResume) {
  const TemporaryDirectory folder;
  JsonLinesTracker killed;
  killed.start(setup_in(folder.path(), "first"));
  const TrackedValues saved = values_at(0, {{"loss", 1.0}});
  killed.log(saved);
  killed.flush();

  for (int attempt = 0; attempt < 3; ++attempt) {
    JsonLinesTracker resumed;
    resumed.start(setup_in(folder.path(), "second"));
    resumed.store_init_configuration(Json::object({{"lr", attempt}}));
    resumed.resume(killed.state_dict(), saved.time_us);
    resumed.log(values_at(1, {{"loss", 2.0}}));
    resumed.finish();
  }

  // The start of the run, a step, and the start, configuration and step of the
  // last attempt.
  EXPECT_EQ(lines_of(folder.read("project/first/metrics.jsonl")).size(), 5U);
}

TEST(JsonLines, BeginsAnotherRunIfTheSavedOneIsGone) {
  const TemporaryDirectory folder;
  JsonLinesTracker tracker;
  tracker.start(setup_in(folder.path(), "second"));

  tracker.resume(Json::object({{"run", "first"}}), now_us());
  tracker.log(values_at(3, {{"loss", 2.0}}));
  tracker.finish();

  EXPECT_THAT(
      logged_steps(folder.read("project/second/metrics.jsonl")),
      ElementsAre(3));
}

TEST(JsonLines, AppendsToARunWithTheSameName) {
  const TemporaryDirectory folder;
  const Json name = Json::object({{"name", "baseline"}});
  for (std::int64_t step = 0; step < 2; ++step) {
    JsonLinesTracker tracker;
    tracker.start(setup_in(folder.path(), "ignored", name));
    tracker.log(values_at(step, {{"loss", 2.0}}));
    tracker.finish();
  }

  EXPECT_THAT(
      logged_steps(folder.read("project/baseline/metrics.jsonl")),
      ElementsAre(0, 1));
}

TEST(JsonLines, RejectsUnknownOptions) {
  const TemporaryDirectory folder;
  JsonLinesTracker tracker;

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        tracker.start(
            setup_in(folder.path(), "run", Json::object({{"dir", "x"}})));
      }),
      "tracker `jsonl` has no option `dir`");
}

TEST(JsonLines, SaysAtTheStartThatItCannotWrite) {
  const TemporaryDirectory folder;
  folder.write("project", "a file");
  JsonLinesTracker tracker;

  EXPECT_THAT(
      message_of<IoError>(
          [&] { tracker.start(setup_in(folder.path(), "run")); }),
      testing::AllOf(
          StartsWith("cannot write "), HasSubstr("project/run/metrics.jsonl")));
}

TEST(Csv, AddsColumnsAndQuotesText) {
  const TemporaryDirectory folder;
  CsvTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));

  tracker.log(values_at(0, {{"loss", 0.5}}));
  tracker.log(values_at(
      1, {{"note, \"x\"", std::string("two\nlines, \"y\"")}, {"loss", kNan}}));
  tracker.finish();

  const std::string text = folder.read("project/run/metrics.csv");
  EXPECT_THAT(text, StartsWith("_step,_time,loss,\"note, \"\"x\"\"\"\n0,"));
  EXPECT_THAT(text, HasSubstr(",NaN,\"two\nlines, \"\"y\"\"\"\n"));
  EXPECT_THAT(csv_steps(text), ElementsAre("_step", "0", "1"));
}

TEST(Csv, AddsAColumnAfterTheDiskWasFull) {
  const TemporaryDirectory folder;
  CsvTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));
  tracker.log(values_at(0, {{"loss", 1.0}}));
  tracker.flush();
  {
    const FileSizeLimit limit(10);
    EXPECT_THAT(
        message_of<IoError>([&] { tracker.log(values_at(1, {{"new", 2.0}})); }),
        StartsWith("cannot write "));
  }

  tracker.log(values_at(2, {{"new", 3.0}}));
  tracker.finish();

  const std::string text = folder.read("project/run/metrics.csv");
  EXPECT_THAT(text, StartsWith("_step,_time,loss,new\n"));
  EXPECT_THAT(csv_steps(text), ElementsAre("_step", "0", "2"));
}

TEST(Csv, HasTenThousandColumns) {
  const TemporaryDirectory folder;
  CsvTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), 1.0});
  }

  tracker.log(values_at(0, entries));
  tracker.log(values_at(1, entries));
  tracker.finish();

  const std::string text = folder.read("project/run/metrics.csv");
  std::string_view rest = text;
  std::vector<std::string> cells;
  for (int row = 0; row < 3; ++row) {
    ASSERT_TRUE(read_csv_row(rest, cells));
    EXPECT_EQ(cells.size(), 10002U);
  }
}

TEST(Csv, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  CsvTracker killed;
  killed.start(setup_in(folder.path(), "first"));
  std::int64_t saved_at = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const TrackedValues values =
        values_at(step, {{"note", std::string("a\nb")}});
    killed.log(values);
    saved_at = step == 2 ? values.time_us : saved_at;
  }
  killed.flush();

  CsvTracker resumed;
  resumed.start(setup_in(folder.path(), "second"));
  resumed.store_init_configuration(Json::object({{"lr", 2}}));
  resumed.resume(killed.state_dict(), saved_at);
  resumed.log(values_at(3, {{"other", 2.0}}));
  resumed.finish();

  const std::string text = folder.read("project/first/metrics.csv");
  EXPECT_THAT(csv_steps(text), ElementsAre("_step", "0", "1", "2", "3"));
  EXPECT_THAT(text, StartsWith("_step,_time,note,other\n"));
  EXPECT_EQ(folder.read("project/first/config.json"), "{\n  \"lr\": 2\n}\n");
  EXPECT_FALSE(fs::exists(folder.path() / "project/second"));
}

TEST(Csv, KeepsNumbersNextToAHistogramThatItCannotKeep) {
  const TemporaryDirectory folder;
  CsvTracker tracker;
  tracker.start(setup_in(folder.path(), "run"));

  EXPECT_EQ(
      message_of<UnsupportedError>([&] {
        tracker.log(values_at(0, {{"h", Histogram{}}, {"loss", 0.5}}));
      }),
      "the tracker `csv` does not support histograms");
  tracker.finish();

  EXPECT_THAT(
      folder.read("project/run/metrics.csv"),
      testing::AllOf(StartsWith("_step,_time,loss\n0,"), HasSubstr(",0.5\n")));
}

}  // namespace
}  // namespace accelerate
