// SPDX-License-Identifier: Apache-2.0
#include "tracking/plot.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "tracking/registry.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Writes a run with a tracker; its loss is 4, 2, 1.
void write_run(
    const fs::path& folder,
    const std::string& tracker,
    const std::string& run) {
  const auto writer = make_tracker(tracker);
  writer->start(
      {.project = "p", .run = run, .logging_dir = folder, .kwargs = {}});
  double loss = 4;
  for (std::int64_t step = 0; step < 3; ++step, loss /= 2) {
    TrackedValues values;
    values.step = step;
    values.time_us = now_us();
    values.entries = {
        {"train/loss", loss},
        {"note", std::string("12")},
        {"bad", std::numeric_limits<double>::quiet_NaN()}};
    writer->log(values);
  }
  writer->finish();
}

RunCurves run_with(
    const std::string& name, const std::string& key, Curve curve) {
  RunCurves run;
  run.name = name;
  run.curves[key] = std::move(curve);
  return run;
}

class ReadRuns : public testing::TestWithParam<const char*> {};

TEST_P(ReadRuns, ReadsWhatTheTrackerWrote) {
  const TemporaryDirectory folder;
  write_run(folder.path(), GetParam(), "first");
  write_run(folder.path(), GetParam(), "second");

  const auto runs = read_runs(folder.path());

  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].name, "first");
  EXPECT_EQ(runs[1].name, "second");
  const Curve& loss = runs[0].curves.at("train/loss");
  EXPECT_THAT(loss.steps, ElementsAre(0, 1, 2));
  EXPECT_THAT(loss.values, ElementsAre(4, 2, 1));
  EXPECT_TRUE(std::isnan(runs[0].curves.at("bad").values.at(0)));
}

INSTANTIATE_TEST_SUITE_P(
    Trackers, ReadRuns, testing::Values("csv", "jsonl", "tensorboard"));

TEST(ReadRuns, ReadsAFileUpToItsIncompleteEnd) {
  const TemporaryDirectory folder;
  const fs::path file = folder.write(
      "metrics.jsonl",
      "{\"_step\": 1, \"loss\": 2}\n{\"_step\": 2, \"loss\": 1}\n{\"_st");

  const auto runs = read_runs(file);

  EXPECT_THAT(runs.at(0).curves.at("loss").values, ElementsAre(2, 1));
}

TEST(ReadRuns, SaysWhatItCannotRead) {
  const TemporaryDirectory folder;
  const fs::path text = folder.write("a.txt", "x");
  const fs::path table = folder.write("a.csv", "x,y\n1,2\n");

  EXPECT_EQ(
      message_of<IoError>([&] { read_runs(folder.path() / "missing"); }),
      "there is no file or folder " + (folder.path() / "missing").string());
  EXPECT_EQ(
      message_of<IoError>([&] { read_runs(folder.path()); }),
      "no run in " + folder.path().string());
  EXPECT_EQ(
      message_of<FormatError>([&] { read_runs(text); }),
      text.string() + " is not a file that a tracker writes");
  EXPECT_EQ(
      message_of<FormatError>([&] { read_runs(table); }),
      table.string() +
          " is not a metrics file: its first column is not `_step`");
}

TEST(Plot, HasAPanelPerKeyAndALinePerRun) {
  const std::vector<RunCurves> runs{
      run_with("one", "loss", {{0, 1}, {2, 1}}),
      run_with("two", "loss", {{0, 1}, {3, 1}}),
      run_with("three", "lr", {{0}, {0.1}})};

  const Plot plot = make_plot(runs, {});

  ASSERT_EQ(plot.panels.size(), 2U);
  EXPECT_EQ(plot.panels[0].key, "loss");
  EXPECT_EQ(plot.panels[0].lines.size(), 2U);
  EXPECT_EQ(plot.panels[1].lines.at(0).run, 2U);
}

TEST(Plot, RejectsKeysThatNoRunHas) {
  const std::vector<RunCurves> runs{run_with("one", "loss", {{0}, {1}})};

  EXPECT_EQ(
      message_of<ArgumentError>([&] { make_plot(runs, {.keys = {"los"}}); }),
      "no run has values named `los`");
}

TEST(Plot, SmoothsWithoutPullingTheFirstValuesToZero) {
  const std::vector<RunCurves> runs{
      run_with("one", "loss", {{0, 1, 2}, {8, 8, 2}})};

  const Plot plot = make_plot(runs, {.smoothing = 0.5});

  const Curve& smoothed = plot.panels.at(0).lines.at(0).smoothed;
  EXPECT_DOUBLE_EQ(smoothed.values.at(0), 8);
  EXPECT_DOUBLE_EQ(smoothed.values.at(1), 8);
  EXPECT_DOUBLE_EQ(smoothed.values.at(2), (8 * 0.75 * 0.5 + 2 * 0.5) / 0.875);
}

TEST(Plot, DrawsValidSvgForAnyNameAndValue) {
  const std::vector<RunCurves> runs{
      run_with("a<b>&\"\x1b[31m", "k<", {{0, 1}, {1, NAN}}),
      run_with("flat", "flat", {{5}, {3}}),
      run_with("nothing", "inf", {{0}, {INFINITY}})};

  const std::string svg = svg_of(make_plot(runs, {}));

  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("a&lt;b&gt;&amp;&quot;"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(svg, testing::Not(HasSubstr("inf\" y")));
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
}

TEST(Plot, KeepsPeaksOfLongCurves) {
  Curve curve;
  for (int i = 0; i < 100000; ++i) {
    curve.steps.push_back(i);
    curve.values.push_back(i == 54321 ? 100.0 : 0.0);
  }

  const std::string svg =
      svg_of(make_plot({run_with("one", "loss", curve)}, {}));

  EXPECT_LT(svg.size(), 40000U);
  // The top of the panel.
  EXPECT_THAT(svg, HasSubstr(" 32.0L"));
}

TEST(Plot, DrawsTextWithAMarkPerRun) {
  const std::vector<RunCurves> runs{
      run_with("one", "loss", {{0, 10}, {1, 0}}),
      run_with("two", "loss", {{0, 10}, {0, 1}})};

  const std::string text = text_of(make_plot(runs, {}), 40);

  EXPECT_THAT(text, testing::StartsWith("loss\n          1 |*"));
  EXPECT_THAT(text, HasSubstr("\n* one\no two\n"));
}

TEST(AxisTicks, AreRoundNumbers) {
  EXPECT_THAT(axis_ticks(0, 1, 5), testing::Contains(testing::DoubleEq(0.2)));
  EXPECT_THAT(axis_ticks(0, 100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(axis_ticks(-3, 3, 3), ElementsAre(-2, 0, 2));
}

}  // namespace
}  // namespace accelerate
