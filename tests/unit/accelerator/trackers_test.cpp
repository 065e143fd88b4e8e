// SPDX-License-Identifier: Apache-2.0
// `log_with`, `init_trackers`, `log` and their position in checkpoints.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/text.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "unit/tracking/collecting_tracker.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

struct TrackedRun {
  explicit TrackedRun(
      std::vector<LogWith> log_with, const fs::path& folder = {})
      : accelerator(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = !folder.empty()},
             .log_with = std::move(log_with)}) {}

  Accelerator accelerator;
};

TrackedValue only_value(const CollectingTracker& tracker) {
  return tracker.logged.at(0).entries.at(0).value;
}

std::vector<std::string> keys_of(const TrackedValues& values) {
  std::vector<std::string> keys;
  for (const TrackedEntry& entry : values.entries) {
    keys.push_back(entry.key);
  }
  return keys;
}

std::vector<std::int64_t> jsonl_steps(const fs::path& project) {
  std::vector<std::int64_t> steps;
  for (const auto& run : fs::directory_iterator(project)) {
    std::ifstream file(run.path() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const Json entry = Json::parse(line);
      if (!entry.contains("_type")) {
        steps.push_back(entry.at("_step").as_integer());
      }
    }
  }
  return steps;
}

TEST(Trackers, GetFlattenedNumbersTextAndTensors) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p", Json::object({{"lr", 0.1}}));

  at::Tensor loss = torch::tensor(0.5);
  run.accelerator.log(
      {{"loss", loss},
       {"count", torch::tensor(7)},
       {"done", torch::tensor(true)},
       {"note", "text"},
       {"eval", {{"f1", 0.25F}, {"inner", {{"n", 3}}}}},
       {"half", torch::tensor({0.5}, torch::kHalf)}},
      {.step = 4});
  loss.fill_(9);  // `log` has read it.
  run.accelerator.end_training();

  ASSERT_EQ(tracker->logged.size(), 1U);
  const TrackedValues& values = tracker->logged[0];
  EXPECT_EQ(values.step, 4);
  EXPECT_THAT(
      keys_of(values),
      ElementsAre(
          "loss", "count", "done", "note", "eval/f1", "eval/inner/n", "half"));
  EXPECT_EQ(std::get<double>(values.entries[0].value), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(values.entries[1].value), 7);
  EXPECT_TRUE(std::get<bool>(values.entries[2].value));
  EXPECT_EQ(std::get<std::string>(values.entries[3].value), "text");
  EXPECT_EQ(std::get<double>(values.entries[4].value), 0.25);
  EXPECT_EQ(std::get<std::int64_t>(values.entries[5].value), 3);
  EXPECT_EQ(std::get<double>(values.entries[6].value), 0.5);
  EXPECT_EQ(tracker->config.at("lr").as_double(), 0.1);
  EXPECT_TRUE(tracker->finished);
}

TEST(Trackers, RejectTensorsWithSeveralElements) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p");

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { run.accelerator.log({{"loss", torch::zeros({2, 3})}}); }),
      "`log` got a tensor of type Float and shape [2, 3] as `loss`");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { run.accelerator.log({{"loss", torch::Tensor()}}); }),
      "`log` got an undefined tensor as `loss`");
}

TEST(Trackers, GetHistogramsOfFiniteValues) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p");

  run.accelerator.log(
      {{"h",
        histogram_of(
            torch::tensor(
                {0.0, 1.0, 2.0, 4.0, std::numeric_limits<double>::infinity()}),
            4)}});
  run.accelerator.end_training();

  const auto histogram = std::get<Histogram>(only_value(*tracker));
  EXPECT_EQ(histogram.sum, 7);
  EXPECT_EQ(histogram.sum_squares, 21);
  EXPECT_THAT(histogram.limits, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(histogram.counts, ElementsAre(1, 1, 1, 1));
}

TEST(Trackers, GetImagesAsPngFiles) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p");

  run.accelerator.log_images(
      {{"batch", torch::rand({2, 3, 4, 5})}}, {.step = 1});
  run.accelerator.log_images(
      {{"one", torch::zeros({4, 5, 1}, torch::kByte)}},
      {.dataformats = "NHWC"});
  run.accelerator.end_training();

  ASSERT_EQ(tracker->images.size(), 2U);
  const auto& batch = tracker->images[0].entries.at(0);
  EXPECT_EQ(batch.images.size(), 2U);
  EXPECT_EQ(batch.images[0].width, 5);
  EXPECT_EQ(batch.images[0].height, 4);
  EXPECT_THAT(batch.images[0].png, testing::StartsWith("\x89PNG\r\n"));
  EXPECT_EQ(tracker->images[1].entries.at(0).images.size(), 1U);
}

TEST(Trackers, RejectTensorsThatAreNotImages) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p");

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        run.accelerator.log_images({{"x", torch::rand({2, 2, 2, 2})}});
      }),
      "the value of `x` passed to `log_images` cannot be read as `NCHW` "
      "images: its type is Float, and its shape is [2, 2, 2, 2]");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { run.accelerator.log_images({{"x", 1.0}}); }),
      "the value of `x` passed to `log_images` is not a tensor");
}

TEST(Trackers, MustBeStartedBeforeValuesAreLogged) {
  TrackedRun run({std::make_shared<CollectingTracker>()});

  EXPECT_EQ(
      message_of<StateError>([&] { run.accelerator.log({{"a", 1}}); }),
      "`log` was called while no trackers were running");
}

TEST(Trackers, CanFinishBeforeTheEndOfTheTraining) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});
  run.accelerator.init_trackers("p");

  run.accelerator.log({{"a", 1}});
  run.accelerator.finish_trackers();

  EXPECT_TRUE(tracker->finished);
  EXPECT_EQ(tracker->logged.size(), 1U);
  EXPECT_EQ(
      message_of<StateError>([&] { run.accelerator.log({{"a", 1}}); }),
      "`log` was called while no trackers were running");
}

TEST(Trackers, AreNotNeeded) {
  TrackedRun run({});

  run.accelerator.init_trackers("p");
  run.accelerator.log({{"a", 1}});
  run.accelerator.end_training();

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(run.accelerator.get_tracker("csv")); }),
      "this run has no tracker `csv`");
}

TEST(Trackers, AreCheckedByTheConstructor) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { TrackedRun run({"tensorboard"}); }),
      "tracker `tensorboard` needs a folder for its files");
  EXPECT_EQ(
      message_of<ArgumentError>([] { TrackedRun run({"tensorbord"}); }),
      "`log_with` names an unknown tracker: `tensorbord`");
  EXPECT_EQ(
      message_of<ArgumentError>([] { TrackedRun run({"aim"}); }),
      "tracker `aim` needs a folder for its files");
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        TrackedRun run(
            {std::make_shared<CollectingTracker>("a"),
             std::make_shared<CollectingTracker>("a")});
      }),
      "`log_with` has two trackers named `a`");
}

TEST(Trackers, AllMeansTheTrackersOfThisLibrary) {
  const TemporaryDirectory folder;
  TrackedRun run({"all", "csv"}, folder.path());

  run.accelerator.init_trackers("team/p");
  run.accelerator.log({{"loss", 0.5}}, {.step = 0});
  run.accelerator.end_training();

  const fs::path runs = folder.path() / "team%2Fp";
  ASSERT_TRUE(fs::exists(runs));
  const fs::path files = fs::directory_iterator(runs)->path();
  EXPECT_TRUE(fs::exists(files / "metrics.csv"));
  EXPECT_TRUE(fs::exists(files / "metrics.jsonl"));
}

TEST(Trackers, GetTheirOwnOptions) {
  auto tracker = std::make_shared<CollectingTracker>();
  TrackedRun run({tracker});

  run.accelerator.init_trackers(
      "p",
      {},
      Json::object(
          {{"collecting", Json::object({{"tags", "x"}})},
           {"other", Json::object({})}}));

  EXPECT_EQ(tracker->started.project, "p");
  EXPECT_EQ(tracker->started.kwargs.at("tags").as_string(), "x");
  EXPECT_EQ(run.accelerator.get_tracker("collecting"), tracker);
}

TEST(Trackers, RunOnTheMainProcessOnly) {
  std::mutex mutex;
  std::vector<std::shared_ptr<CollectingTracker>> trackers;
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    auto tracker = std::make_shared<CollectingTracker>();
    Accelerator accelerator(PartialState(group), {.log_with = {tracker}});
    accelerator.init_trackers("p");
    accelerator.log({{"rank", accelerator.process_index()}});
    EXPECT_EQ(accelerator.get_tracker("collecting")->name(), "collecting");
    accelerator.get_tracker("collecting")->log({});
    accelerator.end_training();
    const std::scoped_lock lock(mutex);
    trackers.push_back(tracker);
  });

  std::size_t started = 0;
  for (const auto& tracker : trackers) {
    started += tracker->finished ? 1 : 0;
  }
  EXPECT_EQ(started, 1U);
}

TEST(Trackers, ContinueAfterTheCheckpointWithoutDuplicateSteps) {
  const TemporaryDirectory folder;
  const auto train = [&](bool resume, std::int64_t steps) {
    TrackedRun run({"jsonl"}, folder.path());
    torch::nn::Linear net(2, 2);
    AdamW optimizer(net->parameters(), 0.1);
    run.accelerator.prepare(net, optimizer);
    run.accelerator.init_trackers("p");
    if (resume) {
      run.accelerator.load_state();
    }
    while (run.accelerator.step() < steps) {
      run.accelerator.backward(net->forward(torch::ones({2, 2})).sum());
      optimizer.step();
      optimizer.zero_grad();
      run.accelerator.log({{"loss", 1.0}}, {.step = run.accelerator.step()});
      if (run.accelerator.step() == 3 && !resume) {
        run.accelerator.save_state();
      }
    }
  };

  train(false, 6);
  train(true, 5);

  EXPECT_THAT(jsonl_steps(folder.path() / "p"), ElementsAre(1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace accelerate
