// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "support/file_size_limit.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "tracking/registry.h"
#include "tracking/run_files.h"
#include "tracking/sqlite.h"
#include "tracking/trackio_store.h"
#include "tracking/trackio_tracker.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::chrono::milliseconds kShortTimeout{20};
// 2025-03-01 00:00:00 UTC.
constexpr std::int64_t kBegin = 1740787200000000;

Environment environment_of(std::map<std::string, std::string> variables) {
  return Environment(std::move(variables));
}

Environment trackio_environment(const TemporaryDirectory& folder) {
  return Environment(
      {{"TRACKIO_DIR", folder.path().string()}, {"PATH", "/none"}});
}

TrackioTracker trackio_in(const TemporaryDirectory& folder) {
  return TrackioTracker(trackio_environment(folder), kShortTimeout);
}

TrackerSetup trackio_setup(const std::string& project, Json kwargs = {}) {
  return {
      .project = project,
      .run = "run-1",
      .logging_dir = {},
      .kwargs = std::move(kwargs)};
}

TrackedValues trackio_values(
    std::int64_t step, std::vector<TrackedEntry> entries) {
  return {
      .step = step,
      .time_us = kBegin + step * 1000000,
      .entries = std::move(entries),
      .kwargs = {}};
}

TrackedImages trackio_images(
    std::int64_t step, const std::string& key, const std::string& png) {
  TrackedImages images;
  images.step = step;
  images.time_us = kBegin + step * 1000000;
  images.entries.push_back({key, {{1, 1, png}}});
  return images;
}

/// The text of one column of all rows.
std::vector<std::string> query(
    const fs::path& database_path, const std::string& statement) {
  SqliteDatabase database(database_path, kShortTimeout);
  SqliteStatement rows(database, statement);
  std::vector<std::string> texts;
  while (rows.step()) {
    texts.push_back(rows.text(0));
  }
  return texts;
}

void change(const fs::path& database_path, const std::string& statements) {
  SqliteDatabase(database_path, kShortTimeout).execute(statements);
}

constexpr char kSteps[] = "SELECT step FROM metrics ORDER BY timestamp, id";

TEST(Trackio, WritesOneRowPerCall) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("digits"));
  tracker.log(trackio_values(
      3,
      {{"train/loss", 0.25},
       {"epoch", std::int64_t{1}},
       {"done", false},
       {"note", std::string("it's \"x\"")},
       {"bad", std::numeric_limits<double>::quiet_NaN()},
       {"huge", -std::numeric_limits<double>::infinity()}}));
  tracker.finish();

  const fs::path file = folder.path() / "digits.db";
  EXPECT_THAT(
      query(file, "SELECT metrics FROM metrics"),
      ElementsAre("{\"train/loss\":0.25,\"epoch\":1,\"done\":false,"
                  "\"note\":\"it's \\\"x\\\"\",\"bad\":\"NaN\","
                  "\"huge\":\"-Infinity\"}"));
  EXPECT_THAT(
      query(file, "SELECT timestamp FROM metrics"),
      ElementsAre("2025-03-01T00:00:03.000000+00:00"));
  EXPECT_THAT(
      query(file, "SELECT run_name FROM metrics"), ElementsAre("run-1"));
  EXPECT_THAT(query(file, "SELECT step FROM metrics"), ElementsAre("3"));
  EXPECT_THAT(
      query(file, "SELECT run_id FROM metrics"),
      ElementsAre(tracker.state_dict().at("run_id").as_string()));
  // Trackio adds its other tables to a database of version 0.
  EXPECT_THAT(query(file, "PRAGMA user_version"), ElementsAre("0"));
  EXPECT_THAT(query(file, "PRAGMA journal_mode"), ElementsAre("wal"));
}

TEST(Trackio, WritesTheConfiguration) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup(
      "digits", Json::object({{"name", "baseline"}, {"group", "sweep"}})));
  tracker.store_init_configuration(
      Json::object({{"lr", 0.1}, {"model", Json::object({{"layers", 2}})}}));
  tracker.log(trackio_values(0, {{"loss", 1.0}}));
  tracker.finish();

  const auto texts =
      query(folder.path() / "digits.db", "SELECT config FROM configs");
  ASSERT_EQ(texts.size(), 1U);
  const Json config = Json::parse(texts[0]);
  EXPECT_EQ(config.at("lr"), Json(0.1));
  EXPECT_EQ(config.at("model").at("layers"), Json(2));
  EXPECT_EQ(config.at("_Group"), Json("sweep"));
  EXPECT_TRUE(config.at("_Username").is_null());
  EXPECT_THAT(
      query(folder.path() / "digits.db", "SELECT run_name FROM configs"),
      ElementsAre("baseline"));
}

TEST(Trackio, WritesTheConfigurationOfARunWithoutValues) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.store_init_configuration(Json::object({{"lr", 0.1}}));
  tracker.flush();
  EXPECT_FALSE(fs::exists(folder.path() / "p.db"));

  tracker.finish();

  EXPECT_THAT(
      query(folder.path() / "p.db", "SELECT config FROM configs"),
      ElementsAre(StartsWith("{\"lr\":0.1,")));
}

TEST(Trackio, WritesHistogramsTablesAndImages) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("digits"));
  Histogram histogram;
  histogram.min = -1;
  histogram.limits = {0, 2};
  histogram.counts = {3, 4};
  tracker.log(trackio_values(0, {{"weights", histogram}}));
  TrackedTable table;
  table.step = 1;
  table.time_us = kBegin + 1000000;
  table.key = "answers";
  table.columns = {"q", "score"};
  table.rows = {{Json("2+2"), Json(0.5)}};
  tracker.log_table(table);
  tracker.log_images(trackio_images(2, "sample", "png bytes"));
  tracker.flush();

  const auto rows =
      query(folder.path() / "digits.db", "SELECT metrics FROM metrics");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(
      rows[0],
      "{\"weights\":{\"_type\":\"trackio.histogram\",\"bins\":[-1.0,0.0,2.0],"
      "\"values\":[3.0,4.0]}}");
  EXPECT_EQ(
      rows[1],
      "{\"answers\":{\"_type\":\"trackio.table\",\"_value\":[{\"q\":\"2+2\","
      "\"score\":0.5}]}}");
  const Json image = Json::parse(rows[2]).at("sample");
  EXPECT_EQ(image.at("_type"), Json("trackio.image"));
  const std::string path = image.at("file_path").as_string();
  EXPECT_THAT(path, StartsWith("digits/run-1/2/"));
  EXPECT_EQ(folder.read("media/" + path), "png bytes");
}

TEST(Trackio, NamesProjectsAsTrackioDoes) {
  EXPECT_EQ(trackio_project("bert-base_1"), "bert-base_1");
  EXPECT_EQ(trackio_project("a/b"), "ab");
  EXPECT_EQ(trackio_project("../my.model 'x'"), "mymodelx");
  EXPECT_EQ(trackio_project("größe 模型"), "größe模型");
  EXPECT_EQ(trackio_project("///"), "default");
  EXPECT_EQ(trackio_project("_system"), "_system");
  EXPECT_EQ(
      message_of<ArgumentError>([] { trackio_project("model_artifacts"); }),
      "tracker `trackio` cannot store the project `model_artifacts`: Trackio "
      "uses the name `model_artifacts` for its own files");
  EXPECT_THAT(
      message_of<ArgumentError>([] { trackio_project("registry-x"); }),
      HasSubstr("registry-x"));
  EXPECT_THAT(
      message_of<ArgumentError>([] { trackio_project(std::string(300, 'x')); }),
      HasSubstr("has 300 bytes"));
}

TEST(Trackio, WarnsThatProjectsShareAName) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);

  testing::internal::CaptureStderr();
  tracker.start(trackio_setup("a/b"));

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: tracker `trackio`: the project `a/b` is stored as `ab`, "
      "together with every other project that has the same letters and "
      "digits\n");
}

TEST(Trackio, RenamesKeysThatTrackioReserves) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.log(trackio_values(
      0, {{"step", 1.0}, {"__x", 2.0}, {"a'; DROP TABLE metrics; --", 3.0}}));
  tracker.finish();

  EXPECT_THAT(
      query(folder.path() / "p.db", "SELECT metrics FROM metrics"),
      ElementsAre("{\"__step\":1.0,\"____x\":2.0,"
                  "\"a'; DROP TABLE metrics; --\":3.0}"));
}

TEST(Trackio, KeepsFilesOfARunWithAHostileNameInTheMediaFolder) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p", Json::object({{"name", "../../x'; --"}})));
  tracker.log_images(trackio_images(0, "../y", "png bytes"));
  tracker.finish();

  const auto rows =
      query(folder.path() / "p.db", "SELECT metrics FROM metrics");
  const std::string path =
      Json::parse(rows.at(0)).at("../y").at("file_path").as_string();
  EXPECT_THAT(
      path,
      StartsWith("p/" + tracker.state_dict().at("run_id").as_string() + "/0/"));
  EXPECT_THAT(
      query(folder.path() / "p.db", "SELECT run_name FROM metrics"),
      ElementsAre("../../x'; --"));
}

TEST(Trackio, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  TrackioTracker killed = trackio_in(folder);
  killed.start(trackio_setup("p"));
  killed.store_init_configuration(Json::object({{"lr", 1}}));
  for (std::int64_t step = 0; step < 5; ++step) {
    killed.log(trackio_values(step, {{"loss", 1.0}}));
  }
  killed.log_images(trackio_images(5, "sample", "old"));
  killed.flush();

  TrackioTracker resumed = trackio_in(folder);
  TrackerSetup setup = trackio_setup("p");
  setup.run = "run-2";
  resumed.start(setup);
  resumed.store_init_configuration(Json::object({{"lr", 2}}));
  resumed.resume(killed.state_dict(), kBegin + 2000000);
  resumed.flush();
  resumed.log(trackio_values(3, {{"loss", 2.0}}));
  resumed.finish();

  const fs::path file = folder.path() / "p.db";
  EXPECT_THAT(query(file, kSteps), ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(
      query(file, "SELECT DISTINCT run_name FROM metrics"),
      ElementsAre("run-1"));
  EXPECT_EQ(query(file, "SELECT DISTINCT run_id FROM metrics").size(), 1U);
  EXPECT_THAT(
      query(file, "SELECT config FROM configs"),
      ElementsAre(StartsWith("{\"lr\":2,")));
  EXPECT_EQ(resumed.state_dict(), killed.state_dict());
  EXPECT_TRUE(fs::is_empty(folder.path() / "media/p/run-1/5"));
}

TEST(Trackio, KeepsOtherRunsOfTheProject) {
  const TemporaryDirectory folder;
  TrackioTracker other = trackio_in(folder);
  other.start(trackio_setup("p"));
  other.log(trackio_values(9, {{"loss", 1.0}}));
  other.flush();
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.resume(tracker.state_dict(), kBegin);
  tracker.log(trackio_values(1, {{"loss", 1.0}}));
  tracker.finish();

  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("1", "9"));
}

TEST(Trackio, LosesOnlyWhatAKilledProcessDidNotFlush) {
  const TemporaryDirectory folder;
  const pid_t child = ::fork();
  if (child == 0) {
    TrackioTracker tracker = trackio_in(folder);
    tracker.start(trackio_setup("p"));
    tracker.log(trackio_values(0, {{"loss", 1.0}}));
    tracker.flush();
    tracker.log(trackio_values(1, {{"loss", 1.0}}));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("0"));
  EXPECT_THAT(
      query(folder.path() / "p.db", "PRAGMA integrity_check"),
      ElementsAre("ok"));
}

TEST(Trackio, SaysThatAnotherProgramHasTheLock) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.log(trackio_values(0, {{"loss", 1.0}}));
  {
    const FileLock lock(folder.path() / "p.lock", kShortTimeout);
    EXPECT_THAT(
        message_of<IoError>([&] { tracker.flush(); }),
        HasSubstr("another process holds the lock"));
  }

  tracker.log(trackio_values(1, {{"loss", 1.0}}));
  tracker.finish();

  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("1"));
}

TEST(Trackio, SaysThatTheDatabaseIsLocked) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.log(trackio_values(0, {{"loss", 1.0}}));
  tracker.flush();
  SqliteDatabase other(folder.path() / "p.db", kShortTimeout);
  other.execute("BEGIN IMMEDIATE");
  tracker.log(trackio_values(1, {{"loss", 1.0}}));

  EXPECT_THAT(
      message_of<IoError>([&] { tracker.flush(); }),
      HasSubstr("p.db: database is locked"));

  other.execute("ROLLBACK");
  tracker.log(trackio_values(2, {{"loss", 1.0}}));
  tracker.finish();
  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("0", "2"));
}

TEST(Trackio, WritesAgainAfterTheDiskWasFull) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.log(trackio_values(0, {{"loss", 1.0}}));
  tracker.flush();
  {
    const FileSizeLimit limit(fs::file_size(folder.path() / "p.db"));
    tracker.log(trackio_values(1, {{"note", std::string(500000, 'x')}}));
    EXPECT_THAT(
        message_of<IoError>([&] { tracker.flush(); }),
        StartsWith("cannot use the database "));
  }

  tracker.log(trackio_values(2, {{"loss", 1.0}}));
  tracker.finish();

  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("0", "2"));
}

TEST(Trackio, WritesTablesOfANewerVersionWithTheSameColumns) {
  const TemporaryDirectory folder;
  TrackioTracker first = trackio_in(folder);
  first.start(trackio_setup("p"));
  first.log(trackio_values(0, {{"loss", 1.0}}));
  first.finish();
  change(
      folder.path() / "p.db",
      "ALTER TABLE metrics ADD COLUMN extra TEXT; PRAGMA user_version = 3");
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));

  testing::internal::CaptureStderr();
  tracker.log(trackio_values(1, {{"loss", 1.0}}));
  tracker.flush();
  tracker.log(trackio_values(2, {{"loss", 1.0}}));
  tracker.flush();
  const std::string warnings = testing::internal::GetCapturedStderr();

  EXPECT_THAT(warnings, HasSubstr("was created by a newer Trackio than 0.43"));
  EXPECT_EQ(warnings.find("newer"), warnings.rfind("newer")) << warnings;
  EXPECT_THAT(
      query(folder.path() / "p.db", kSteps), ElementsAre("0", "1", "2"));
  EXPECT_THAT(
      query(folder.path() / "p.db", "PRAGMA user_version"), ElementsAre("3"));
}

TEST(Trackio, RefusesTablesWithOtherColumns) {
  const TemporaryDirectory folder;
  change(
      folder.path() / "p.db",
      "CREATE TABLE metrics (id INTEGER, run_name TEXT, metrics TEXT);"
      "CREATE TABLE configs (id INTEGER, run_name TEXT, config TEXT)");
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  tracker.log(trackio_values(0, {{"loss", 1.0}}));

  EXPECT_EQ(
      message_of<UnsupportedError>([&] { tracker.flush(); }),
      "an older Trackio created this project (tables of version 0), but "
      "tracker `trackio` writes tables of version 2");
}

TEST(Trackio, SaysAtTheStartWhatItCannotDo) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        tracker.start(trackio_setup("p", Json::object({{"space_id", "x/y"}})));
      }),
      "tracker `trackio` has no option `space_id`");

  const fs::path file = folder.write("file", "");
  TrackioTracker elsewhere(
      environment_of({{"TRACKIO_DIR", (file / "x").string()}}), kShortTimeout);
  EXPECT_THAT(
      message_of<IoError>([&] { elsewhere.start(trackio_setup("p")); }),
      StartsWith("cannot create "));

  TrackioTracker jsonl(
      environment_of({{"TRACKIO_STORAGE_MODE", "jsonl"}}), kShortTimeout);
  EXPECT_THAT(
      message_of<UnsupportedError>([&] { jsonl.start(trackio_setup("p")); }),
      HasSubstr("TRACKIO_STORAGE_MODE is `jsonl`"));
}

TEST(Trackio, FindsTheFolderAsTrackioDoes) {
  EXPECT_EQ(
      trackio_folder(
          environment_of({{"TRACKIO_DIR", "/t"}, {"HF_HOME", "/h"}})),
      "/t");
  EXPECT_EQ(trackio_folder(environment_of({{"HF_HOME", "/h"}})), "/h/trackio");
  EXPECT_EQ(
      trackio_folder(environment_of({{"HOME", "/u"}})),
      "/u/.cache/huggingface/trackio");
}

TEST(Trackio, WritesTenThousandKeys) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  std::vector<TrackedEntry> entries;
  for (int i = 0; i < 10000; ++i) {
    entries.push_back({"key/" + std::to_string(i), 1.0});
  }
  tracker.log(trackio_values(0, std::move(entries)));
  tracker.finish();

  const auto rows =
      query(folder.path() / "p.db", "SELECT metrics FROM metrics");
  const Json row = Json::parse(rows.at(0));
  EXPECT_EQ(row.size(), 10000U);
  EXPECT_EQ(row.at("key/9999"), Json(1.0));
}

TEST(Trackio, KeepsAStepThatGoesBack) {
  const TemporaryDirectory folder;
  TrackioTracker tracker = trackio_in(folder);
  tracker.start(trackio_setup("p"));
  for (const std::int64_t step : {5, 3}) {
    TrackedValues values = trackio_values(step, {{"loss", 1.0}});
    values.time_us = kBegin + 10 - step;
    tracker.log(values);
  }
  tracker.finish();

  EXPECT_THAT(query(folder.path() / "p.db", kSteps), ElementsAre("5", "3"));
}

TEST(Trackio, IsATrackerByName) {
  EXPECT_EQ(make_tracker("trackio")->name(), "trackio");
  EXPECT_EQ(make_tracker("dvclive")->name(), "dvclive");
}

}  // namespace
}  // namespace accelerate
