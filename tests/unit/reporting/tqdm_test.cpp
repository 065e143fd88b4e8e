// SPDX-License-Identifier: Apache-2.0
#include "accelerate/tqdm.h"

#include <list>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "reporting/progress_line.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Captures the output of a bar and controls its clock.
struct Screen {
  std::ostringstream out;
  std::chrono::steady_clock::time_point time;

  TqdmOptions options(bool terminal) {
    TqdmOptions result;
    result.show = true;
    result.stream = &out;
    result.terminal = terminal;
    result.clock = [this] { return time; };
    return result;
  }
  std::string take() {
    std::string text = out.str();
    out.str("");
    return text;
  }
};

TEST(ProgressLine, ShowsPercentCountTimesAndRate) {
  Progress progress{.n = 4, .total = 10, .elapsed = seconds(2)};
  EXPECT_EQ(
      progress_line(progress), " 40%|████      | 4/10 [00:02<00:03, 2.00it/s]");
  progress.description = "train";
  progress.postfix = "loss=0.5";
  progress.unit = "batch";
  EXPECT_EQ(
      progress_line(progress),
      "train:  40%|████      | 4/10 [00:02<00:03, 2.00batch/s, loss=0.5]");
}

TEST(ProgressLine, CountsWithoutATotal) {
  EXPECT_EQ(
      progress_line({.n = 4, .elapsed = seconds(8)}), "4it [00:08, 2.00s/it]");
  // A total below the count is ignored.
  EXPECT_EQ(
      progress_line({.n = 4, .total = 3, .elapsed = seconds(8)}),
      "4it [00:08, 2.00s/it]");
}

TEST(ProgressLine, ShowsNoRateAtTheStart) {
  EXPECT_EQ(
      progress_line({.n = 0, .total = 2}),
      "  0%|          | 0/2 [00:00<?, ?it/s]");
}

TEST(ProgressLine, ShowsHours) {
  EXPECT_EQ(
      progress_line({.n = 1, .total = 3, .elapsed = seconds(3725)}),
      " 33%|███       | 1/3 [1:02:05<2:04:10, 3725.00s/it]");
}

TEST(Tqdm, RedrawsOneLineOnATerminalButNotTooOften) {
  Screen screen;
  tqdm bar(10, screen.options(/*terminal=*/true));
  EXPECT_EQ(screen.take(), "\r\x1b[K  0%|          | 0/10 [00:00<?, ?it/s]");

  bar.update();
  EXPECT_EQ(screen.take(), "");
  screen.time += milliseconds(100);
  bar.update();
  EXPECT_EQ(
      screen.take(), "\r\x1b[K 20%|██        | 2/10 [00:00<00:00, 20.00it/s]");
  screen.time += milliseconds(99);
  bar.update();
  EXPECT_EQ(screen.take(), "");
}

TEST(Tqdm, WritesALineEveryFewSecondsWithoutATerminal) {
  Screen screen;
  tqdm bar(10, screen.options(/*terminal=*/false));
  for (int i = 0; i < 6; ++i) {
    screen.time += seconds(1);
    bar.update();
  }
  EXPECT_EQ(screen.take(), " 50%|█████     | 5/10 [00:05<00:05, 1.00it/s]\n");
}

TEST(Tqdm, DrawsTheFinalStateOnce) {
  Screen screen;
  {
    tqdm bar(2, screen.options(/*terminal=*/true));
    bar.set_description("train");
    bar.update(2);
    screen.time += seconds(1);
    screen.take();
    bar.close();
    EXPECT_EQ(
        screen.take(),
        "\r\x1b[Ktrain: 100%|██████████| 2/2 [00:01<00:00, 2.00it/s]\n");
    bar.update();
    screen.time += seconds(1);
    bar.update();
  }
  EXPECT_EQ(screen.take(), "");
}

TEST(Tqdm, ClosesInItsDestructor) {
  Screen screen;
  {
    tqdm bar(2, screen.options(/*terminal=*/false));
    screen.time += seconds(1);
    bar.update(2);
  }
  EXPECT_EQ(screen.take(), "100%|██████████| 2/2 [00:01<00:00, 2.00it/s]\n");
}

TEST(Tqdm, DisappearsWithoutLeave) {
  Screen screen;
  TqdmOptions options = screen.options(/*terminal=*/true);
  options.leave = false;
  tqdm bar(2, options);
  screen.take();
  bar.close();
  EXPECT_EQ(screen.take(), "\r\x1b[K");
}

TEST(Tqdm, CountsSilentlyWhenHidden) {
  Screen screen;
  TqdmOptions options = screen.options(/*terminal=*/true);
  options.show = false;
  {
    tqdm bar(2, options);
    bar.update(5);
    bar.set_description("x");
    bar.set_postfix("y");
    EXPECT_EQ(bar.n(), 5);
    EXPECT_FALSE(bar.is_shown());
  }
  EXPECT_EQ(screen.take(), "");
}

TEST(Tqdm, MovesWithItsState) {
  Screen screen;
  tqdm first(4, screen.options(/*terminal=*/false));
  first.update(3);
  tqdm second = std::move(first);
  EXPECT_EQ(second.n(), 3);
  second.close();
  EXPECT_EQ(screen.take(), " 75%|███████   | 3/4 [00:00<00:00, ?it/s]\n");
}

TEST(Tqdm, CountsWhileIteratingOverARange) {
  Screen screen;
  std::vector<int> values = {1, 2, 3};
  int sum = 0;
  for (int& value : tqdm::over(values, screen.options(/*terminal=*/false))) {
    sum += value;
    value = 0;
    screen.time += seconds(1);
  }
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(values, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(screen.take(), "100%|██████████| 3/3 [00:03<00:00, 1.00it/s]\n");
}

struct Stream {
  std::list<int>::const_iterator begin() const { return values.begin(); }
  std::list<int>::const_iterator end() const { return values.end(); }
  std::list<int> values = {1, 2};
};

TEST(Tqdm, CountsARangeWithoutALength) {
  Screen screen;
  for (const int value : tqdm::over(Stream(), screen.options(false))) {
    screen.time += seconds(value);
  }
  EXPECT_EQ(screen.take(), "2it [00:03, 1.50s/it]\n");
}

}  // namespace
}  // namespace accelerate
