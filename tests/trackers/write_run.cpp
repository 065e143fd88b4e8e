// SPDX-License-Identifier: Apache-2.0
// Writes a run with a tracker, for the scripts that read it with the tracker's
// own program:
//
//     accelerate_write_run <tracker> <folder> <first> <end> [project <name>]
//     [save <step>] [pause <milliseconds>] [kill <milliseconds>]
//
// Logs the steps from `first` to `end` - 1, with a pause after each. `save`
// writes the state of the
// trackers to `<folder>/state.json` after the given step; a later call with
// this folder continues the run from there. `kill` ends the process with
// SIGKILL after a time, instead of finishing the run.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "tracking/png.h"
#include "tracking/registry.h"
#include "tracking/run_files.h"
#include "tracking/tracker_set.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 1000;  // About the size of one call.

EncodedImage picture(char red) {
  std::string pixels;
  for (int i = 0; i < 8 * 4; ++i) {
    pixels += {red, static_cast<char>(8 * i), '\x40'};
  }
  return {
      .width = 8,
      .height = 4,
      .png = encode_png({.width = 8, .height = 4, .channels = 3}, pixels)};
}

void log_step(TrackerSet& trackers, std::int64_t step) {
  TrackedValues values;
  values.entries = {
      {"train/loss", 20.0 / static_cast<double>(step + 20)},
      {"epoch", step / 10},
      {"note", std::string("step \"") + std::to_string(step) + "\" ✓"}};
  if (step == 2) {
    values.entries.push_back({"not finite/nan", std::nan("")});
    values.entries.push_back(
        {"not finite/inf", std::numeric_limits<double>::infinity()});
    values.entries.push_back({"flag", true});
    values.entries.push_back(
        {"weights", Histogram{0, 3, 6, 14, {1, 2, 3}, {1, 1, 2}}});
  }
  trackers.log(std::move(values), step, kBytes);
  if (step == 3) {
    TrackedImages images;
    images.entries.push_back({"eval/one", {picture('\x10')}});
    images.entries.push_back({"eval/two", {picture('\x60'), picture('\x70')}});
    trackers.log_images(std::move(images), step, kBytes);
  }
  if (step == 4) {
    TrackedTable table;
    table.key = "cases";
    table.columns = {"text", "score"};
    table.rows = {{Json("x"), Json(std::nan(""))}, {Json("y"), Json(2)}};
    trackers.log_table(std::move(table), step, kBytes);
  }
}

struct RunArguments {
  std::string tracker;
  fs::path folder;
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::string project = "team/project";
  std::int64_t save_after = -1;
  std::chrono::milliseconds pause{0};
  std::optional<std::chrono::milliseconds> kill_after = std::nullopt;
};

RunArguments run_arguments(const std::vector<std::string>& words) {
  RunArguments arguments{
      .tracker = words.at(0),
      .folder = words.at(1),
      .first = std::stoll(words.at(2)),
      .end = std::stoll(words.at(3))};
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (words[i] == "project") {
      arguments.project = words.at(++i);
    } else if (words[i] == "save") {
      arguments.save_after = std::stoll(words.at(++i));
    } else if (words[i] == "pause") {
      arguments.pause = std::chrono::milliseconds(std::stoll(words.at(++i)));
    } else if (words[i] == "kill") {
      arguments.kill_after =
          std::chrono::milliseconds(std::stoll(words.at(++i)));
    }
  }
  return arguments;
}

void write_run(const RunArguments& arguments) {
  const fs::path state = arguments.folder / "state.json";
  TrackerSet trackers({.finish_timeout = std::chrono::minutes(1)});
  trackers.add(
      make_tracker(arguments.tracker),
      {.project = arguments.project,
       .run = {},
       .logging_dir = arguments.folder,
       .kwargs = {}});
  trackers.store_init_configuration(Json::object(
      {{"lr", 0.1},
       {"decay", std::nan("")},
       {"model", Json::object({{"name", "bert"}})}}));
  if (fs::exists(state)) {
    trackers.load_state_dict(Json::parse(read_file(state, 1 << 20)));
  }
  for (std::int64_t step = arguments.first; step < arguments.end; ++step) {
    log_step(trackers, step);
    if (step == arguments.save_after) {
      write_file(state, trackers.state_dict().dump());
    }
    std::this_thread::sleep_for(arguments.pause);
  }
  if (arguments.kill_after) {
    std::this_thread::sleep_for(*arguments.kill_after);
    std::raise(SIGKILL);
  }
  trackers.finish();
}

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  try {
    accelerate::write_run(accelerate::run_arguments({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
