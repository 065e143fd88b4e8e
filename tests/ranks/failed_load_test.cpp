// SPDX-License-Identifier: Apache-2.0
// Loads that fail late must not change the run.
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

/// A run with every kind of state, and two micro-steps per update.
class FullRun {
 public:
  explicit FullRun(const Group& group, std::int64_t width = 6)
      : accelerator(PartialState(group), {.gradient_accumulation_steps = 2}),
        net(width, 3),
        optimizer(net->parameters(), 0.1) {
    {
      const at::NoGradGuard no_grad;
      net->weight.fill_(0.5);
      net->bias.fill_(0.25);
    }
    accelerator.prepare(net, optimizer);
    accelerator.register_for_checkpointing(*this);
    accelerator.register_random_state(
        "python",
        [this] { return at::full({1}, random, at::kByte); },
        [this](const at::Tensor& state) {
          const auto value = state.item<std::int64_t>();
          if (value == refused) {
            throw std::runtime_error("not this one");
          }
          random = value;
        });
  }

  void step() {
    auto region = accelerator.accumulate();
    const auto width = net->weight.size(1);
    accelerator.backward(net->forward(at::ones({2, width})).pow(2).sum());
    optimizer.step();
    optimizer.zero_grad();
    ++counter;
  }

  Json state_dict() const { return Json(counter); }
  void load_state_dict(const Json& state) { counter = state.as_integer(); }

  Accelerator accelerator;
  torch::nn::Linear net;
  AdamW optimizer;
  std::int64_t counter = 0;
  std::int64_t random = 1;
  std::int64_t refused = -1;
};

/// Saves a checkpoint in the middle of an accumulation.
std::filesystem::path save_mid_accumulation(
    const TemporaryDirectory& folder, const int ranks) {
  const std::filesystem::path checkpoint = folder.path() / "c";
  run_on_ranks(ranks, quick(Backend::shm), [&](Group& group) {
    FullRun run(group);
    run.random = 7;
    for (int micro = 0; micro < 3; ++micro) {
      run.step();
    }
    run.accelerator.save_state(checkpoint);
  });
  return checkpoint;
}

void expect_untouched(FullRun& run) {
  EXPECT_TRUE(run.net->weight.eq(0.5).all().item<bool>());
  EXPECT_TRUE(run.net->bias.eq(0.25).all().item<bool>());
  EXPECT_EQ(run.counter, 0);
  EXPECT_EQ(run.random, 1);
  EXPECT_EQ(run.accelerator.step(), 0);
  EXPECT_TRUE(run.accelerator.sync_gradients());
}

TEST(FailedLoad, ChangesNothingWhenOneRankRefusesItsRandomState) {
  const TemporaryDirectory folder;
  const auto checkpoint = save_mid_accumulation(folder, 2);
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    FullRun run(group);
    run.refused = group.rank() == 1 ? 7 : -1;
    EXPECT_THAT(
        message_of<FormatError>(
            [&] { run.accelerator.load_state(checkpoint); }),
        HasSubstr("rank 1: not this one"));
    expect_untouched(run);

    const auto report =
        run.accelerator.load_state(checkpoint, {.strict = false});
    EXPECT_EQ(run.counter, 3);
    EXPECT_EQ(run.random, group.rank() == 1 ? 1 : 7);
    if (group.rank() == 1) {
      EXPECT_THAT(
          report.left_out,
          testing::ElementsAre("random state `python`: not this one"));
    } else {
      EXPECT_THAT(report.left_out, testing::IsEmpty());
    }
    EXPECT_FALSE(run.accelerator.sync_gradients());
  });
}

/// Throws even for its previous state.
struct Broken {
  Json state_dict() const { return Json("state"); }
  void load_state_dict(const Json& /*state*/) {
    throw std::runtime_error("broken");
  }
};

TEST(FailedLoad, ReportsAnObjectThatCannotBeRestored) {
  const TemporaryDirectory folder;
  FullRun first{Group()};
  Broken broken;
  first.accelerator.register_for_checkpointing(broken);
  first.counter = 5;
  const auto checkpoint = first.accelerator.save_state(folder.path() / "c");

  FullRun run{Group()};
  run.accelerator.register_for_checkpointing(broken);
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(checkpoint); }),
      testing::EndsWith(
          "c: broken\n  restoring the previous state failed too: broken"));
  expect_untouched(run);
}

/// A valid checkpoint that lacks something that the run needs.
struct WrongCheckpoint {
  const char* name;
  std::function<void(CheckpointContents&)> change;
  const char* text;
};

std::vector<WrongCheckpoint> wrong_checkpoints() {
  return {
      {"NoRandomState",
       [](auto& contents) { contents.rank_state.erase("random.torch"); },
       "random.torch"},
      {"AShortRandomState",
       [](auto& contents) {
         contents.rank_state["random.torch"] = at::zeros({5}, at::kByte);
       },
       "random"},
      {"NoGroupWeight",
       [](auto& contents) { contents.rank_state.erase("group_weight"); },
       "group_weight"},
      {"NoAccumulation",
       [](auto& contents) {
         contents.documents["run"] = Json::object(
             {{"models", 1}, {"optimizers", 1}, {"sync_gradients", false}});
       },
       "accumulation"},
      {"AGradientOfAnotherShape",
       [](auto& contents) {
         contents.rank_state["gradient.0.weight"] = at::zeros({2, 2});
       },
       "model: the gradient of `weight` is Float[2, 2] in the checkpoint, but "
       "Float[3, 6] in this run"},
      {"AGradientOfNoParameter",
       [](auto& contents) {
         contents.rank_state["gradient.0.other"] = at::zeros({2, 2});
       },
       "the checkpoint has the gradient `gradient.0.other`, but this run does "
       "not train its parameter"},
  };
}

class WrongState : public testing::TestWithParam<WrongCheckpoint> {};

TEST_P(WrongState, IsDetectedBeforeAnythingIsChanged) {
  const TemporaryDirectory folder;
  const auto right = save_mid_accumulation(folder, 1);
  LoadedCheckpoint loaded = load_checkpoint(right, Group(), true);
  CheckpointContents contents;
  contents.step = loaded.step;
  contents.weights = loaded.weights;
  for (const auto& [key, tensors] : loaded.ranges) {
    contents.ranges[key] = replicated(tensors);
  }
  contents.documents = loaded.documents;
  contents.rank_state = loaded.rank_states.front();
  GetParam().change(contents);
  const auto wrong =
      CheckpointWriter(Group())
          .save(contents, {.parent = folder.path(), .name = "wrong"})
          .path;

  FullRun run{Group()};
  const at::Tensor random = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(wrong); }),
      HasSubstr(GetParam().text));
  expect_untouched(run);
  EXPECT_TRUE(
      at::equal(random, at::detail::getDefaultCPUGenerator().get_state()));

  const auto report = run.accelerator.load_state(wrong, {.strict = false});
  EXPECT_THAT(
      report.left_out, testing::ElementsAre(HasSubstr(GetParam().text)));
  EXPECT_TRUE(at::equal(run.net->weight, loaded.weights["model"]["weight"]));
  run.step();
  run.step();
  EXPECT_TRUE(run.net->weight.isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    WrongState,
    testing::ValuesIn(wrong_checkpoints()),
    [](const auto& test) { return test.param.name; });

using WidthCase = std::tuple<int, int>;
class OtherModelWidth : public testing::TestWithParam<WidthCase> {};

TEST_P(OtherModelWidth, InTheMiddleOfAnAccumulationIsSkipped) {
  const auto [before, after] = GetParam();
  const TemporaryDirectory folder;
  const auto checkpoint = save_mid_accumulation(folder, before);
  run_on_ranks(after, quick(Backend::shm), [&](Group& group) {
    FullRun run(group, /*width=*/7);
    const auto report =
        run.accelerator.load_state(checkpoint, {.strict = false});
    EXPECT_THAT(
        report.left_out,
        testing::Contains(
            "model: the gradient of `weight` is Float[3, 6] in the checkpoint, "
            "but Float[3, 7] in this run"));
    EXPECT_TRUE(run.net->weight.eq(0.5).all().item<bool>());
    EXPECT_FALSE(run.net->bias.eq(0.25).any().item<bool>());

    run.step();
    EXPECT_TRUE(run.accelerator.sync_gradients());
    run.step();
    run.step();
    EXPECT_TRUE(run.net->weight.isfinite().all().item<bool>());
    EXPECT_FALSE(run.net->weight.eq(0.5).any().item<bool>());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    OtherModelWidth,
    testing::Combine(testing::Values(1, 2), testing::Values(1, 2)));

}  // namespace
}  // namespace accelerate
