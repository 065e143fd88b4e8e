// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker_set.h"

#include <algorithm>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "tracking/registry.h"
#include "unit/tracking/collecting_tracker.h"

namespace accelerate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrackedValues one_value(const std::string& key, TrackedValue value) {
  TrackedValues values;
  values.entries.push_back({key, std::move(value)});
  return values;
}

TrackerSetup project_setup() {
  TrackerSetup setup;
  setup.project = "project";
  return setup;
}

std::vector<std::int64_t> steps_of(const CollectingTracker& tracker) {
  std::vector<std::int64_t> steps;
  for (const TrackedValues& values : tracker.logged) {
    steps.push_back(values.step);
  }
  return steps;
}

struct StartedSet {
  explicit StartedSet(const TrackerLimits& limits = {}) : set(limits) {
    set.add(tracker, project_setup());
  }

  std::shared_ptr<CollectingTracker> tracker =
      std::make_shared<CollectingTracker>();
  TrackerSet set;
};

TEST(TrackerSet, PassesEverythingToEachTrackerInOrder) {
  TrackerSet set;
  auto first = std::make_shared<CollectingTracker>("first");
  auto second = std::make_shared<CollectingTracker>("second");
  set.add(first, project_setup());
  set.add(second, project_setup());

  set.store_init_configuration(Json::object({{"lr", 0.1}}));
  for (std::int64_t step = 0; step < 100; ++step) {
    set.log(one_value("loss", 1.0), step, 8);
  }
  set.finish();

  for (const auto& tracker : {first, second}) {
    EXPECT_EQ(tracker->config.at("lr").as_double(), 0.1);
    ASSERT_EQ(tracker->logged.size(), 100U);
    for (std::size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(tracker->logged[i].step, static_cast<std::int64_t>(i));
    }
    EXPECT_TRUE(tracker->finished);
  }
  EXPECT_EQ(first->started.run, second->started.run);
}

TEST(TrackerSet, CountsStepsAndSeparatesTimes) {
  StartedSet run;

  run.set.log(one_value("a", 1.0), std::nullopt, 8);
  run.set.log(one_value("a", 1.0), 7, 8);
  run.set.log(one_value("a", 1.0), std::nullopt, 8);
  run.set.finish();

  EXPECT_THAT(steps_of(*run.tracker), ElementsAre(0, 7, 8));
  EXPECT_LT(run.tracker->logged[0].time_us, run.tracker->logged[1].time_us);
  EXPECT_LT(run.tracker->logged[1].time_us, run.tracker->logged[2].time_us);
}

TEST(TrackerSet, CompletesPendingValuesOnceForAllTrackers) {
  TrackerSet set;
  auto first = std::make_shared<CollectingTracker>("first");
  auto second = std::make_shared<CollectingTracker>("second");
  set.add(first, project_setup());
  set.add(second, project_setup());
  int calls = 0;

  set.log(one_value("loss", 0.0), 0, 8, [&calls](TrackedValues& values) {
    ++calls;
    values.entries[0].value = 0.5;
  });
  set.finish();

  EXPECT_EQ(calls, 1);
  EXPECT_EQ(std::get<double>(first->logged.at(0).entries[0].value), 0.5);
  EXPECT_EQ(std::get<double>(second->logged.at(0).entries[0].value), 0.5);
}

TEST(TrackerSet, DropsValuesOfABlockedTrackerAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  {
    StartedSet run({.max_records = 10});
    run.tracker->set_open(false);

    // If `log` waited for the tracker, this loop would not end.
    for (std::int64_t step = 0; step < 1000; ++step) {
      run.set.log(one_value("loss", 1.0), step, 8);
    }
    run.tracker->set_open(true);
    run.set.finish();

    const auto steps = steps_of(*run.tracker);
    EXPECT_GE(steps.size(), 10U);
    EXPECT_LE(steps.size(), 20U);
    EXPECT_EQ(steps.front(), 0);
  }
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      output,
      HasSubstr("warning: tracker `collecting` cannot keep up with this run, "
                "so values "
                "are dropped; training continues\n"));
  EXPECT_THAT(output, HasSubstr("warning: tracker `collecting` lost up to 9"));
  EXPECT_THAT(output, HasSubstr(" of 1000 calls\n"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2);
}

TEST(TrackerSet, LimitsTheBytesThatWait) {
  testing::internal::CaptureStderr();
  StartedSet run({.max_bytes = 1000});
  run.tracker->set_open(false);

  for (std::int64_t step = 0; step < 100; ++step) {
    run.set.log(one_value("loss", 1.0), step, 600);
  }
  run.tracker->set_open(true);
  run.set.finish();

  // One record in delivery and one in the queue.
  EXPECT_LE(run.tracker->logged.size(), 2U);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("dropped"));
}

TEST(TrackerSet, LeavesATrackerThatNeverReturns) {
  testing::internal::CaptureStderr();
  StartedSet run({.finish_timeout = std::chrono::milliseconds(20)});
  run.tracker->set_open(false);

  run.set.log(one_value("loss", 1.0), 0, 8);
  run.set.finish();

  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr(
          "tracker `collecting` did not finish in time and lost up to 1 of 1 "
          "calls"));
  run.tracker->set_open(true);
}

TEST(TrackerSet, GoesOnAfterATrackerThrew) {
  testing::internal::CaptureStderr();
  StartedSet run;
  run.tracker->failing_step = 1;

  for (std::int64_t step = 0; step < 3; ++step) {
    run.set.log(one_value("loss", 1.0), step, 8);
  }
  run.set.finish();

  EXPECT_THAT(steps_of(*run.tracker), ElementsAre(0, 2));
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: tracker `collecting` failed to store some values: no space; "
      "training continues\n"
      "warning: tracker `collecting` lost up to 1 of 3 calls\n");
}

TEST(TrackerSet, KeepsStepsThatGoBackAndWarnsOnce) {
  testing::internal::CaptureStderr();
  StartedSet run;

  run.set.log(one_value("loss", 1.0), 12, 8);
  run.set.log(one_value("accuracy", 1.0), 1, 8);  // Another key: another axis.
  run.set.log(one_value("loss", 1.0), 5, 8);
  run.set.log(one_value("loss", 1.0), 4, 8);
  run.set.finish();

  EXPECT_THAT(steps_of(*run.tracker), ElementsAre(12, 1, 5, 4));
  const std::string output = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      output, HasSubstr("warning: `loss` was logged for step 5 after step 12"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
}

TEST(TrackerSet, ReplacesBytesThatAreNotText) {
  StartedSet run;

  run.set.log(one_value("a\xff", std::string("b\xfe")), 0, 8);
  run.set.finish();

  const TrackedEntry& entry = run.tracker->logged.at(0).entries.at(0);
  EXPECT_EQ(entry.key, "a\xEF\xBF\xBD");
  EXPECT_EQ(std::get<std::string>(entry.value), "b\xEF\xBF\xBD");
}

TEST(TrackerSet, RejectsNamesOfItsOwnColumns) {
  StartedSet run;

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { run.set.log(one_value("_step", 1.0), 0, 8); }),
      "`log` got a value named `_step`");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { run.set.log(one_value("", 1.0), 0, 8); }),
      "`log` got a value named ``");
}

TEST(TrackerSet, ContinuesTheRunOfACheckpoint) {
  StartedSet saved;
  saved.set.log(one_value("loss", 1.0), 41, 8);
  const Json state = saved.set.state_dict();
  StartedSet resumed;

  resumed.set.load_state_dict(state);
  resumed.set.log(one_value("loss", 1.0), std::nullopt, 8);
  resumed.set.finish();

  EXPECT_EQ(
      resumed.tracker->resumed.at("run").as_string(),
      saved.tracker->started.run);
  EXPECT_EQ(resumed.tracker->resumed_at, state.at("time_us").as_integer());
  EXPECT_THAT(steps_of(*resumed.tracker), ElementsAre(42));
  EXPECT_GT(
      resumed.tracker->logged[0].time_us, state.at("time_us").as_integer());
}

TEST(TrackerSet, ContinuesWithTrackersThatAreAddedLater) {
  TrackerSet set;
  auto tracker = std::make_shared<CollectingTracker>();

  set.load_state_dict(Json::object(
      {{"next_step", 5},
       {"time_us", 99},
       {"trackers",
        Json::object({{"collecting", Json::object({{"run", "r"}})}})}}));
  set.add(tracker, project_setup());
  set.finish();

  EXPECT_EQ(tracker->resumed.at("run").as_string(), "r");
  EXPECT_EQ(tracker->resumed_at, 99);
}

TEST(TrackerSet, IgnoresACheckpointThatIsLoadedWithinARun) {
  StartedSet run;
  run.set.log(one_value("loss", 1.0), 3, 8);
  const Json state = run.set.state_dict();
  run.set.log(one_value("loss", 1.0), 4, 8);

  run.set.load_state_dict(state);
  run.set.log(one_value("loss", 1.0), std::nullopt, 8);
  run.set.finish();

  EXPECT_TRUE(run.tracker->resumed.is_null());
  EXPECT_THAT(steps_of(*run.tracker), ElementsAre(3, 4, 5));
}

TEST(TrackerSet, RejectsRowsThatDoNotFitTheColumns) {
  StartedSet run;

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        TrackedTable table;
        table.key = "t";
        table.columns = {"a", "b"};
        table.rows = {{Json(1)}};
        run.set.log_table(table, 0, 8);
      }),
      "table `t` has 2 columns, but a row with 1 values");
}

TEST(Registry, ListsWhatExistsForUnknownNames) {
  try {
    make_tracker("tensorbord");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(
        error.what(), "`log_with` names an unknown tracker: `tensorbord`");
    EXPECT_EQ(
        error.hint(),
        "did you mean `tensorboard`? use one of `aim`, `clearml`, `comet_ml`, "
        "`csv`, `dvclive`, `jsonl`, `mlflow`, `swanlab`, `tensorboard`, "
        "`trackio`, `wandb`, or `all`; `module:Class` names a tracker class in "
        "Python");
  }
}

TEST(Registry, MakesRegisteredClassesOnce) {
  register_tracker_class<CollectingTracker>();

  EXPECT_EQ(make_tracker("collecting")->name(), "collecting");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { register_tracker_class<CollectingTracker>(); }),
      "a tracker class named `collecting` is already registered");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { register_tracker_class("csv", [] { return nullptr; }); }),
      "a tracker class cannot have the name `csv`");
}

}  // namespace
}  // namespace accelerate
