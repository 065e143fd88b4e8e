// SPDX-License-Identifier: Apache-2.0
#include "accelerate/profiler.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "profiling/profile_schedule.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

Json read_trace(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return Json::parse(text.str(), {.source = path.string()});
}

std::int64_t count_events(const Json& trace, const std::string& name) {
  std::int64_t count = 0;
  for (const Json& event : trace.at("traceEvents").as_array()) {
    const Json* found = event.find("name");
    count += found != nullptr && found->as_string() == name ? 1 : 0;
  }
  return count;
}

void work() {
  at::ones({8, 8}).mm(at::ones({8, 8}));
}

std::string actions(const ProfileSchedule& schedule, int steps) {
  std::string text;
  for (int i = 0; i < steps; ++i) {
    text += "-wrS"[static_cast<int>(action_of(schedule, i))];
  }
  return text;
}

TEST(ProfileSchedule, RepeatsItsCycle) {
  EXPECT_EQ(actions({.wait = 1, .warmup = 1, .active = 2}, 9), "-wrS-wrS-");
  EXPECT_EQ(
      actions({.wait = 1, .active = 1, .repeat = 2, .skip_first = 3}, 9),
      "----S-S--");
  EXPECT_EQ(action_of(std::nullopt, 5), ProfileAction::record);
}

TEST(Profiler, WritesAChromeTracePerProcess) {
  const std::filesystem::path folder = fresh_folder();
  {
    Profiler profiler({.output_trace_dir = folder.string()}, 3);
    work();
    work();
  }
  const Json trace = read_trace(folder / "profile_3.json");
  EXPECT_EQ(count_events(trace, "aten::mm"), 2);
}

TEST(Profiler, RecordsTheActiveSteps) {
  const std::filesystem::path folder = fresh_folder();
  std::vector<std::int64_t> recorded;
  ProfileKwargs options;
  options.schedule_option =
      ProfileSchedule{.wait = 1, .warmup = 1, .active = 2, .repeat = 2};
  options.output_trace_dir = folder.string();
  options.on_trace_ready = [&](Profiler& profiler) {
    for (const ProfileEntry& entry : profiler.key_averages()) {
      if (entry.name == "aten::mm") {
        recorded.push_back(entry.calls);
        EXPECT_GT(entry.total_time.count(), 0);
      }
    }
  };

  Profiler profiler(options, 0);
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < (i < 4 ? 1 : 3); ++j) {
      work();
    }
    profiler.step();
  }
  profiler.stop();

  EXPECT_EQ(recorded, (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(profiler.step_num(), 10);
  const Json trace = read_trace(folder / "profile_0.json");
  EXPECT_EQ(count_events(trace, "aten::mm"), 6);
}

TEST(Profiler, RecordsShapesMemoryAndFlopsWhenAsked) {
  const std::filesystem::path folder = fresh_folder();
  Profiler profiler({
      .record_shapes = true,
      .profile_memory = true,
      .with_flops = true,
      .output_trace_dir = folder.string(),
  });
  work();
  profiler.stop();

  const auto entries = profiler.key_averages();
  const auto mm = std::find_if(
      entries.begin(), entries.end(), [](const ProfileEntry& entry) {
        return entry.name == "aten::mm";
      });
  ASSERT_NE(mm, entries.end());
  EXPECT_EQ(mm->flops, 2 * 8 * 8 * 8);
  const Json trace = read_trace(folder / "profile_0.json");
  EXPECT_GT(count_events(trace, "[memory]"), 0);
  bool has_shapes = false;
  for (const Json& event : trace.at("traceEvents").as_array()) {
    const Json* args = event.find("args");
    has_shapes |= args != nullptr && args->contains("Input Dims");
  }
  EXPECT_TRUE(has_shapes);
}

TEST(Profiler, ExportsMoreThanOnce) {
  const std::filesystem::path folder = fresh_folder();
  Profiler profiler;
  work();
  profiler.stop();
  profiler.export_chrome_trace(folder / "a.json");
  profiler.export_chrome_trace(folder / "b.json");
  EXPECT_EQ(
      count_events(read_trace(folder / "a.json"), "aten::mm"),
      count_events(read_trace(folder / "b.json"), "aten::mm"));
}

TEST(Profiler, ReportsWhenNothingWasRecorded) {
  const std::filesystem::path folder = fresh_folder();
  ProfileKwargs options;
  options.schedule_option = ProfileSchedule{.wait = 5, .warmup = 1};
  options.output_trace_dir = folder.string();
  Profiler profiler(options, 0);
  profiler.step();
  EXPECT_EQ(
      message_of<StateError>([&] { profiler.stop(); }),
      "there is no trace to write to `" + folder.string() +
          "/profile_0.json`: nothing was recorded in 1 step");
}

TEST(Profiler, CanStopDuringWarmUpAndStartAgain) {
  ProfileKwargs options;
  options.schedule_option = ProfileSchedule{.warmup = 2};
  {
    Profiler profiler(options);
    profiler.step();
  }
  Profiler again;
  work();
  again.stop();
  EXPECT_FALSE(again.key_averages().empty());
  EXPECT_EQ(
      message_of<StateError>([&] { again.step(); }),
      "`Profiler::step` was called after `stop`");
}

TEST(Profiler, RejectsASecondProfiler) {
  Profiler first;
  EXPECT_EQ(
      message_of<StateError>([] { Profiler second; }),
      "another profiler is running in this process");
}

TEST(Profiler, RejectsUnsupportedOptions) {
  EXPECT_EQ(
      message_of<UnsupportedError>([] { Profiler({.with_stack = true}); }),
      "`with_stack` records Python stacks, which this library does not "
      "support");
  EXPECT_EQ(
      message_of<UnsupportedError>([] { Profiler({.with_modules = true}); }),
      "`with_modules` records TorchScript modules, which this library does not "
      "support");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { Profiler({.activities = std::vector<ProfilerActivity>{}}); }),
      "`activities` is empty: there is nothing to record");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { Profiler({.schedule_option = ProfileSchedule{.active = 0}}); }),
      "`ProfileSchedule::active` is 0");
  if (!at::hasCUDA()) {
    EXPECT_EQ(
        message_of<UnsupportedError>([] {
          Profiler({.activities = std::vector{ProfilerActivity::cuda}});
        }),
        "`ProfilerActivity::cuda` needs CUDA, which is not available");
  }
}

TEST(Profiler, ReportsAnUnwritablePath) {
  Profiler profiler;
  work();
  profiler.stop();
  EXPECT_EQ(
      message_of<IoError>(
          [&] { profiler.export_chrome_trace("/no/such/folder/a.json"); }),
      "cannot write the trace to `/no/such/folder/a.json`");
}

}  // namespace
}  // namespace accelerate
