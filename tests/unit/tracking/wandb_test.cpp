// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/temporary_directory.h"
#include "tracking/registry.h"
#include "tracking/wandb_options.h"
#include "tracking/wandb_records.h"
#include "tracking/wandb_tracker.h"
#include "unit/tracking/wandb_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Pair;

TEST(Wandb, WritesARowPerStepWithNumbersTextsAndHistograms) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  tracker.log(wandb_values(
      2,
      {{"loss", 0.5},
       {"epoch", std::int64_t{3}},
       {"done", false},
       {"eval/note", std::string("\"hello\"")},
       {"weights", Histogram{0, 2, 3, 5, {1, 2}, {1, 4}}}}));
  tracker.log(wandb_values(
      3,
      {{"loss", std::nan("")},
       {"up", std::numeric_limits<double>::infinity()},
       {"down", -std::numeric_limits<double>::infinity()}}));
  tracker.finish();

  const WandbFile file(wandb_run_file(folder));
  const auto rows = file.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(
      rows[0],
      IsSupersetOf(
          {Pair("_step", "2"),
           Pair("loss", "0.5"),
           Pair("epoch", "3"),
           Pair("done", "false"),
           Pair("eval/note", "\"\\\"hello\\\"\""),
           Pair("weights._type", "\"histogram\""),
           Pair("weights.values", "[1.0,4.0]"),
           Pair("weights.bins", "[0.0,1.0,2.0]")}));
  EXPECT_TRUE(rows[0].contains("_timestamp"));
  EXPECT_TRUE(rows[0].contains("_runtime"));
  EXPECT_THAT(
      rows[1],
      IsSupersetOf(
          {Pair("_step", "3"),
           Pair("loss", "NaN"),
           Pair("up", "Infinity"),
           Pair("down", "-Infinity")}));
  EXPECT_EQ(file.of_kind(kWandbSummary).size(), 3U);
  EXPECT_EQ(file.of_kind(kWandbExit).size(), 1U);
}

TEST(Wandb, DescribesTheRunAndItsConfiguration) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(
      folder,
      Json::object(
          {{"name", "baseline"},
           {"id", "abc"},
           {"entity", "me"},
           {"tags", Json::array({"a", "b"})},
           {"notes", "n"},
           {"group", "g"},
           {"job_type", "train"}})));
  tracker.store_init_configuration(Json::object(
      {{"lr", 0.1},
       {"decay", std::nan("")},
       {"model", Json::object({{"name", "bert"}})}}));
  tracker.finish();

  const fs::path path = wandb_run_file(folder);
  EXPECT_EQ(path.filename(), "run-abc.wandb");
  EXPECT_EQ(path.parent_path().parent_path(), folder.path() / "wandb");
  EXPECT_THAT(
      path.parent_path().filename().string(),
      testing::MatchesRegex("offline-run-[0-9]{8}_[0-9]{6}-abc"));
  const WandbFile file(path);
  const std::string content = file.of_kind(kWandbRun).at(0);
  const ProtoFields run = proto_fields(content);
  EXPECT_EQ(proto_text(run, 1), "abc");
  EXPECT_EQ(proto_text(run, 2), "me");
  EXPECT_EQ(proto_text(run, 3), "team_x2F_project");
  EXPECT_EQ(proto_text(run, 6), "g");
  EXPECT_EQ(proto_text(run, 7), "train");
  EXPECT_EQ(proto_text(run, 8), "baseline");
  EXPECT_EQ(proto_text(run, 9), "n");
  EXPECT_EQ(run.count(10), 2U);
  std::map<std::string, std::string> config;
  const std::string items = file.of_kind(kWandbConfig).at(0);
  for (const auto& [number, item] : proto_fields(items)) {
    const ProtoFields fields = proto_fields(item.text);
    config[proto_text(fields, 1)] = proto_text(fields, 16);
  }
  EXPECT_THAT(
      config,
      testing::UnorderedElementsAre(
          Pair("lr", "0.1"),
          Pair("decay", "null"),
          Pair("model", "{\"name\":\"bert\"}")));
}

TEST(Wandb, MergesAllValuesOfAStepIntoOneRow) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  tracker.log(wandb_values(0, {{"loss", 4.0}}));
  tracker.log(wandb_values(1, {{"loss", 3.0}}));
  tracker.log(wandb_values(1, {{"rate", 0.1}}));
  tracker.flush();
  tracker.store_init_configuration(Json::object({{"late", true}}));
  tracker.log(wandb_values(1, {{"loss", 2.0}, {"accuracy", 0.5}}));
  tracker.finish();

  const WandbFile file(wandb_run_file(folder));
  EXPECT_THAT(file.steps_of("loss"), ElementsAre("0:4.0", "1:2.0"));
  EXPECT_THAT(file.steps_of("rate"), ElementsAre("1:0.1"));
  EXPECT_THAT(file.steps_of("accuracy"), ElementsAre("1:0.5"));
  EXPECT_EQ(file.of_kind(kWandbConfig).size(), 1U);
  std::vector<std::uint64_t> expected(file.numbers().size());
  std::iota(expected.begin(), expected.end(), 1U);
  EXPECT_EQ(file.numbers(), expected);
}

TEST(Wandb, WritesAStepThatGoesBackAsARowOfItsOwn) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  tracker.log(wandb_values(5, {{"loss", 0.5}}));
  tracker.log(wandb_values(3, {{"loss", 0.25}}));
  tracker.finish();

  const auto rows = WandbFile(wandb_run_file(folder)).rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("_step"), "5");
  EXPECT_EQ(rows[1].at("_step"), "3");
}

TEST(Wandb, WritesTenThousandKeys) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), 1.0});
  }
  tracker.log(wandb_values(0, std::move(entries)));
  tracker.finish();

  const auto rows = WandbFile(wandb_run_file(folder)).rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("key/9999"), "1.0");
}

TEST(Wandb, WritesImagesAndTablesAsFiles) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  TrackedImages images;
  images.step = 4;
  images.entries.push_back({"a/../b", {{8, 4, "first"}}});
  images.entries.push_back({"two", {{8, 4, "first"}, {8, 4, "second"}}});
  tracker.log_images(images);
  TrackedTable table;
  table.step = 4;
  table.key = "cases";
  table.columns = {"text", "score"};
  table.rows = {{Json("x"), Json(std::nan(""))}, {Json(), Json(2)}};
  tracker.log_table(table);
  tracker.finish();

  const fs::path path = wandb_run_file(folder);
  const WandbFile file(path);
  const auto row = file.rows().at(0);
  const auto read = [&](const std::string& key) {
    return wandb_file_content(
        path.parent_path() / "files" / Json::parse(row.at(key)).as_string());
  };
  EXPECT_EQ(row.at("a/../b._type"), "\"image-file\"");
  EXPECT_EQ(row.at("a/../b.width"), "8");
  EXPECT_THAT(row.at("a/../b.path"), HasSubstr("media/images/a____b_4_"));
  EXPECT_EQ(read("a/../b.path"), "first");
  EXPECT_EQ(row.at("two._type"), "\"images/separated\"");
  EXPECT_EQ(row.at("two.count"), "2");
  EXPECT_EQ(Json::parse(row.at("two.filenames")).size(), 2U);
  EXPECT_EQ(row.at("cases._type"), "\"table-file\"");
  EXPECT_EQ(row.at("cases.nrows"), "2");
  EXPECT_EQ(
      read("cases.path"),
      R"({"columns":["text","score"],"data":[["x",NaN],[null,2]]})");
  const std::string files = file.of_kind(kWandbFiles).at(0);
  EXPECT_EQ(proto_fields(files).size(), 4U);
}

TEST(Wandb, IsReadableAfterEachFlush) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));

  tracker.log(wandb_values(0, {{"loss", 0.5}}));
  tracker.flush();

  const WandbFile file(wandb_run_file(folder));
  EXPECT_THAT(file.steps_of("loss"), ElementsAre("0:0.5"));
}

TEST(Wandb, KeepsWhatItWroteBeforeTheDiskWasFull) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  tracker.log(wandb_values(0, {{"loss", 1.0}}));
  tracker.flush();
  const std::string text(100000, 'x');
  {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 50000;
    std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    tracker.log(wandb_values(1, {{"text", text}}));
    tracker.log(wandb_values(2, {{"rate", 0.1}}));
    EXPECT_THROW(tracker.flush(), IoError);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  tracker.log(wandb_values(2, {{"loss", 2.0}}));
  tracker.log(wandb_values(3, {{"loss", 3.0}}));
  tracker.finish();

  const WandbFile file(wandb_run_file(folder));
  EXPECT_THAT(file.steps_of("loss"), ElementsAre("0:1.0", "2:2.0", "3:3.0"));
  EXPECT_THAT(file.steps_of("rate"), ElementsAre("2:0.1"));
}

TEST(Wandb, SaysOnceHowToUploadTheRun) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  testing::internal::CaptureStderr();

  tracker.log(wandb_values(0, {{"loss", 1.0}}));
  tracker.log(wandb_values(1, {{"loss", 1.0}}));
  tracker.finish();

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "note: tracker `wandb` writes an offline run; to upload it, run `wandb "
      "sync " +
          wandb_run_file(folder).parent_path().string() + "`\n");
}

TEST(Wandb, RefusesOptionsAndNamesThatWandbLacks) {
  const TemporaryDirectory folder;
  const auto error_of = [&](Json kwargs) -> std::string {
    WandbTracker tracker;
    try {
      tracker.start(wandb_setup(folder, std::move(kwargs)));
    } catch (const ArgumentError& error) {
      return std::string(error.what()) + "; " + error.hint();
    }
    return "";
  };
  EXPECT_THAT(
      error_of(Json::object({{"resume", "allow"}})),
      HasSubstr("tracker `wandb` has no option `resume`; its options are: "
                "name, id, entity, tags, notes, group, job_type, dir"));
  EXPECT_THAT(
      error_of(Json::object({{"id", "a/b"}})),
      HasSubstr("`a/b` cannot be the id of a W&B run"));
  EXPECT_THAT(
      error_of(Json::object({{"tags", 3}})),
      HasSubstr("the option `tags` of tracker `wandb` is not a list"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THROW(wandb_project(std::string(129, 'x')), ArgumentError);
}

TEST(Wandb, RefusesKeysThatWandbUsesItself) {
  const TemporaryDirectory folder;
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));

  EXPECT_THROW(
      tracker.log(wandb_values(0, {{"_runtime", 1.0}})), ArgumentError);
}

TEST(Wandb, ReadsTheEnvironmentUnlessAnOptionIsGiven) {
  const TemporaryDirectory folder;
  const Environment environment(
      {{"WANDB_DIR", "/elsewhere"},
       {"WANDB_NAME", "from-environment"},
       {"WANDB_RUN_ID", "id1"},
       {"WANDB_TAGS", "a, b,"},
       {"WANDB_API_KEY", "secret"}});

  const WandbOptions options = wandb_options(
      wandb_setup(folder, Json::object({{"name", "given"}})), environment);

  EXPECT_EQ(options.folder, "/elsewhere/wandb");
  EXPECT_EQ(options.name, "given");
  EXPECT_EQ(options.id, "id1");
  EXPECT_THAT(options.tags, ElementsAre("a", "b"));
  EXPECT_FALSE(options.disabled);
}

TEST(Wandb, WritesNothingIfItIsDisabled) {
  const TemporaryDirectory folder;
  ::setenv("WANDB_MODE", "disabled", 1);
  WandbTracker tracker;
  tracker.start(wandb_setup(folder));
  ::unsetenv("WANDB_MODE");

  tracker.store_init_configuration(Json::object({{"lr", 0.1}}));
  tracker.resume(tracker.state_dict(), 0);
  tracker.log(wandb_values(0, {{"loss", 1.0}}));
  tracker.log_images({});
  tracker.log_table({});
  tracker.flush();
  tracker.finish();

  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Wandb, IsKnownByNameButIsNotOneOfAll) {
  EXPECT_EQ(make_tracker("wandb")->name(), "wandb");
  EXPECT_THAT(file_tracker_names(), testing::Not(testing::Contains("wandb")));
}

}  // namespace
}  // namespace accelerate
