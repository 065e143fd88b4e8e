// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "tracking/crc32c.h"
#include "tracking/event_file.h"
#include "tracking/protobuf.h"
#include "tracking/run_files.h"
#include "tracking/tensorboard_tracker.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Written by tensorboard 2.21: the version event of time 1700000000.5, and
// `loss` = 0.25 in step 3 at time 1700000001.25.
constexpr char kGolden[] =
    "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b"
    "3531101a00000000000000129bd82d0900005040fc54d94110032a0d0a0b0a046c6f737315"
    "0000803e4b9d3371";

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The events of all files of a run.
std::vector<std::string> events_in(const fs::path& folder) {
  std::vector<std::string> events;
  for (const fs::path& path : event_files(folder)) {
    const std::string content = content_of(path);
    std::string_view rest = content;
    while (const auto event = read_framed_event(rest)) {
      events.emplace_back(*event);
    }
    EXPECT_TRUE(rest.empty()) << path << " ends with a damaged event";
  }
  return events;
}

std::map<int, std::vector<ProtoField>> fields_of(std::string_view message) {
  std::map<int, std::vector<ProtoField>> fields;
  while (const auto field = read_proto_field(message)) {
    fields[field->number].push_back(*field);
  }
  EXPECT_TRUE(message.empty());
  return fields;
}

std::vector<std::int64_t> steps_with_tag(
    const std::vector<std::string>& events, std::string_view tag) {
  std::vector<std::int64_t> steps;
  for (const std::string& event : events) {
    auto fields = fields_of(event);
    for (const ProtoField& summary : fields[5]) {
      auto values = fields_of(summary.text);
      for (const ProtoField& value : values[1]) {
        const auto parts = fields_of(value.text);
        if (parts.at(1).at(0).text == tag) {
          steps.push_back(static_cast<std::int64_t>(fields[2].at(0).integer));
        }
      }
    }
  }
  return steps;
}

TrackerSetup board_setup(const fs::path& folder, const std::string& run) {
  return {
      .project = "team/project",
      .run = run,
      .logging_dir = folder,
      .kwargs = {}};
}

TrackedValues board_values(
    std::int64_t step, std::vector<TrackedEntry> entries) {
  TrackedValues values;
  values.step = step;
  values.time_us = now_us() + step * 1000000;
  values.entries = std::move(entries);
  return values;
}

TEST(Crc32c, MatchesThePublishedCheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32("123456789"), 0xcbf43926U);
}

TEST(EventFile, WritesTheBytesThatTensorBoardWrites) {
  const std::string version = framed_event(
      ProtoMessage().real(1, 1700000000.5).text(3, "brain.Event:2").bytes());
  const std::string loss = framed_event(
      ProtoMessage()
          .real(1, 1700000001.25)
          .integer(2, 3)
          .message(
              5,
              ProtoMessage().message(
                  1, ProtoMessage().text(1, "loss").single(2, 0.25F)))
          .bytes());

  EXPECT_EQ(version + loss, bytes_of_hex(kGolden));
}

TEST(EventFile, ReadsTheBytesThatTensorBoardWrote) {
  const std::string golden = bytes_of_hex(kGolden);
  std::string_view rest = golden;

  const auto version = read_framed_event(rest);
  const auto loss = read_framed_event(rest);

  ASSERT_TRUE(version && loss);
  EXPECT_EQ(fields_of(*version)[3].at(0).text, "brain.Event:2");
  EXPECT_EQ(event_time_us(*loss), 1700000001250000);
  EXPECT_TRUE(rest.empty());
}

TEST(EventFile, StopsAtAnyDamagedByte) {
  const std::string golden = bytes_of_hex(kGolden);
  const std::size_t first = 40;
  for (std::size_t i = 0; i < first; ++i) {
    std::string damaged = golden;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    std::string_view rest = damaged;
    EXPECT_FALSE(read_framed_event(rest)) << "byte " << i;
    EXPECT_EQ(rest.size(), golden.size());
  }
  for (std::size_t size = 0; size < first; ++size) {
    std::string_view rest = std::string_view(golden).substr(0, size);
    EXPECT_FALSE(read_framed_event(rest)) << size << " bytes";
  }
}

TEST(TensorBoard, WritesScalarsTextsHistogramsAndImages) {
  const TemporaryDirectory folder;
  TensorBoardTracker tracker;
  tracker.start(board_setup(folder.path(), "run"));
  tracker.log(board_values(
      2,
      {{"loss", 0.5},
       {"epoch", std::int64_t{3}},
       {"note", std::string("hello")},
       {"weights", Histogram{0, 2, 3, 5, {1, 2}, {1, 2}}}}));
  TrackedImages images;
  images.step = 4;
  images.entries.push_back({"samples", {{8, 4, "png"}, {8, 4, "png"}}});
  tracker.log_images(images);
  tracker.finish();

  const auto events = events_in(folder.path() / "team%2Fproject" / "run");
  for (const char* tag : {"loss", "epoch", "note", "weights"}) {
    EXPECT_THAT(steps_with_tag(events, tag), ElementsAre(2)) << tag;
  }
  EXPECT_THAT(steps_with_tag(events, "samples"), ElementsAre(4));
}

TEST(TensorBoard, WritesTheConfigurationAsHyperparametersAndYaml) {
  const TemporaryDirectory folder;
  TensorBoardTracker tracker;
  tracker.start(board_setup(folder.path(), "run"));
  tracker.store_init_configuration(Json::object(
      {{"lr", 0.1},
       {"model", Json::object({{"name", "bert"}, {"frozen", false}})}}));
  tracker.finish();

  const fs::path run = folder.path() / "team%2Fproject" / "run";
  const auto events = events_in(run);
  for (const char* tag :
       {"_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info"}) {
    EXPECT_THAT(steps_with_tag(events, tag), ElementsAre(0)) << tag;
  }
  EXPECT_EQ(
      content_of(run / "hparams.yml"),
      "\"lr\": 0.1\n\"model/name\": \"bert\"\n\"model/frozen\": false\n");
}

TEST(TensorBoard, IsReadableAfterEachFlush) {
  const TemporaryDirectory folder;
  TensorBoardTracker tracker;
  tracker.start(board_setup(folder.path(), "run"));

  tracker.log(board_values(0, {{"loss", 0.5}}));
  tracker.flush();

  EXPECT_THAT(
      steps_with_tag(
          events_in(folder.path() / "team%2Fproject" / "run"), "loss"),
      ElementsAre(0));
}

TEST(TensorBoard, ResumesWithoutStepsAfterTheCheckpoint) {
  const TemporaryDirectory folder;
  const fs::path run = folder.path() / "team%2Fproject" / "first";
  TensorBoardTracker killed;
  killed.start(board_setup(folder.path(), "first"));
  std::int64_t saved_at = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    const TrackedValues values = board_values(step, {{"loss", 1.0}});
    killed.log(values);
    saved_at = step == 2 ? values.time_us : saved_at;
  }
  killed.flush();
  // The process died in the middle of an event.
  std::ofstream(event_files(run).at(0), std::ios::app) << "\x18\0\0";

  TensorBoardTracker resumed;
  resumed.start(board_setup(folder.path(), "second"));
  resumed.store_init_configuration(Json::object({{"lr", 0.1}}));
  resumed.resume(killed.state_dict(), saved_at);
  resumed.log(board_values(3, {{"loss", 2.0}}));
  resumed.finish();

  EXPECT_THAT(steps_with_tag(events_in(run), "loss"), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(event_files(run).size(), 2U);
  EXPECT_FALSE(fs::exists(folder.path() / "team%2Fproject" / "second"));
}

TEST(TensorBoard, KeepsStepsThatAreOlderThanTheConfiguration) {
  const TemporaryDirectory folder;
  const fs::path run = folder.path() / "team%2Fproject" / "first";
  TensorBoardTracker killed;
  killed.start(board_setup(folder.path(), "first"));
  const TrackedValues saved = board_values(0, {{"loss", 1.0}});
  killed.store_init_configuration(Json::object({{"lr", 0.1}}));
  killed.log(saved);
  killed.flush();

  TensorBoardTracker resumed;
  resumed.start(board_setup(folder.path(), "second"));
  resumed.resume(killed.state_dict(), saved.time_us);
  resumed.finish();

  EXPECT_THAT(steps_with_tag(events_in(run), "loss"), ElementsAre(0));
}

TEST(TensorBoard, RemovesFilesOfAnEarlierAttemptToResume) {
  const TemporaryDirectory folder;
  const fs::path run = folder.path() / "team%2Fproject" / "first";
  TensorBoardTracker killed;
  killed.start(board_setup(folder.path(), "first"));
  const TrackedValues saved = board_values(0, {{"loss", 1.0}});
  killed.log(saved);
  killed.flush();

  for (int attempt = 0; attempt < 3; ++attempt) {
    TensorBoardTracker resumed;
    resumed.start(board_setup(folder.path(), "another"));
    resumed.resume(killed.state_dict(), saved.time_us);
    resumed.log(board_values(1, {{"loss", 2.0}}));
    resumed.flush();
  }

  EXPECT_THAT(steps_with_tag(events_in(run), "loss"), ElementsAre(0, 1));
}

}  // namespace
}  // namespace accelerate
