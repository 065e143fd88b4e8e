// SPDX-License-Identifier: Apache-2.0
// Tests training steps with a strategy that implements only the interface.
#include "training/training_step.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "parallel/local_gradients.h"

namespace accelerate {
namespace {

using testing::ElementsAre;

const char* text_of(Sync sync) {
  switch (sync) {
    case Sync::now:
      return "now";
    case Sync::hidden:
      return "hidden";
    case Sync::later:
      return "later";
    case Sync::visible:
      return "visible";
  }
  return "";
}

/// A strategy that records the calls to it.
class ListingStrategy : public Strategy {
 public:
  void replicate(
      const NamedTensors& parameters, const NamedTensors& buffers) override {
    calls.push_back(
        str_cat("replicate ", parameters.size(), " ", buffers.size()));
  }
  void broadcast(const std::vector<at::Tensor>& tensors, int from) override {
    calls.push_back(str_cat("broadcast ", tensors.size(), " from ", from));
  }
  std::unique_ptr<GradientPath> make_path(NamedTensors trainable) override {
    calls.push_back(str_cat("path ", trainable.size()));
    return std::make_unique<LocalGradients>(std::move(trainable));
  }
  void begin_backward(std::vector<Participant> participants) override {
    std::string call = "begin";
    for (const Participant& participant : participants) {
      participant.path->begin(participant.sync);
      call += str_cat(" ", text_of(participant.sync));
    }
    calls.push_back(call);
    participants_ = std::move(participants);
  }
  void end_backward() override {
    calls.emplace_back("end");
    for (const Participant& participant : participants_) {
      participant.path->end();
    }
  }
  void fail_backward() noexcept override { calls.emplace_back("fail"); }
  void join_backward(const std::vector<GradientPath*>& /*paths*/) override {}
  std::shared_ptr<OperatorCollectives> operator_collectives() override {
    return nullptr;
  }
  FlatRange owned_range(const at::Tensor& parameter) const override {
    return {0, parameter.numel()};
  }
  std::string capture_obstacle() const override { return ""; }

  /// The calls since the last `take`.
  std::vector<std::string> take() { return std::exchange(calls, {}); }

  std::vector<std::string> calls;

 private:
  std::vector<Participant> participants_;
};

/// A run with one process, and a model that has one parameter and one buffer.
struct ListedRun {
  explicit ListedRun(std::int64_t accumulation_steps = 1)
      : training(
            {state, mesh, strategy, objects, precision},
            {.accumulation = {.num_steps = accumulation_steps}}) {
    PreparedModel model;
    model.parameters = {{"weight"}, {weight}};
    model.buffers = {{"mean"}, {at::zeros({1})}};
    objects.add_model(std::move(model));
  }

  bool backward() { return training.backward(weight.sum(), {}); }

  at::Tensor weight = at::ones({2}).requires_grad_();
  PartialState state = PartialState(Group());
  Mesh mesh = Mesh(state.group());
  ListingStrategy strategy;
  PreparedObjects objects{strategy};
  MixedPrecision precision{{}, Environment(), c10::Device(c10::kCPU)};
  TrainingStep training;
};

TEST(TrainingStep, PreparesAModelWithTheStrategy) {
  ListedRun run;

  EXPECT_THAT(run.strategy.take(), ElementsAre("replicate 1 1", "path 1"));
}

TEST(TrainingStep, BroadcastsBuffersAfterAnUpdate) {
  ListedRun run;
  run.strategy.take();

  EXPECT_TRUE(run.backward());

  EXPECT_THAT(
      run.strategy.take(),
      ElementsAre("begin now", "end", "broadcast 1 from 0"));
  EXPECT_EQ(run.training.updates(), 1);
}

TEST(TrainingStep, SynchronizesOnceForEachMicroBatchGroup) {
  ListedRun run(/*accumulation_steps=*/2);
  run.strategy.take();

  run.training.begin_micro_step(std::nullopt);
  EXPECT_FALSE(run.backward());
  EXPECT_FALSE(run.weight.grad().defined());
  run.training.end_micro_step();
  run.training.begin_micro_step(std::nullopt);
  EXPECT_TRUE(run.backward());

  EXPECT_THAT(
      run.strategy.take(),
      ElementsAre(
          "begin later", "end", "begin now", "end", "broadcast 1 from 0"));
  EXPECT_TRUE(run.weight.grad().equal(at::ones({2})));
  EXPECT_EQ(run.training.updates(), 1);
}

TEST(TrainingStep, RefusesAMicroStepInsideAnother) {
  ListedRun run(/*accumulation_steps=*/2);
  run.training.begin_micro_step(std::nullopt);

  EXPECT_THAT(
      [&] { run.training.begin_micro_step(std::nullopt); },
      testing::ThrowsMessage<StateError>(
          "accumulate() was called inside the region of another accumulate()"));
  run.training.end_micro_step();
  run.training.begin_micro_step(std::nullopt);

  EXPECT_TRUE(run.backward());
}

TEST(TrainingStep, TellsTheStrategyThatABackwardPassFailed) {
  ListedRun run;
  run.strategy.take();
  const at::Tensor scaled = run.weight * 2;
  scaled.register_hook([](const at::Tensor& gradient) -> at::Tensor {
    throw std::runtime_error(str_cat("gradient of ", gradient.numel()));
  });

  EXPECT_THROW(run.training.backward(scaled.sum(), {}), std::runtime_error);

  EXPECT_THAT(run.strategy.take(), ElementsAre("begin now", "fail"));
  EXPECT_EQ(run.training.updates(), 0);
}

// A parameter that was frozen after `prepare` needs no gradient path; other
// parameters keep their accumulated gradients.
TEST(TrainingStep, FollowsParametersThatAreFrozen) {
  ListedRun run(/*accumulation_steps=*/2);
  const at::Tensor other = at::ones({2}).requires_grad_();
  PreparedModel model;
  model.parameters = {{"other", "weight"}, {other, run.weight}};
  run.objects.clear();
  run.objects.add_model(std::move(model));
  run.training.begin_micro_step(std::nullopt);
  run.training.backward((other + run.weight).sum(), {});
  run.strategy.take();

  other.requires_grad_(false);
  run.training.end_micro_step();
  run.training.begin_micro_step(std::nullopt);
  run.backward();

  EXPECT_THAT(
      run.strategy.take(),
      ElementsAre("replicate 2 0", "path 1", "begin now", "end"));
  EXPECT_TRUE(run.weight.grad().equal(at::ones({2})));
}

TEST(TrainingStep, GivesSchedulersItsOwnState) {
  ListedRun run(/*accumulation_steps=*/2);
  const auto context = run.training.make_scheduler_context();

  run.training.begin_micro_step(std::nullopt);

  EXPECT_FALSE(context->sync_gradients());
  EXPECT_EQ(context->data_parallel_size, 1);

  run.training.restart();
  EXPECT_FALSE(context->sync_gradients());
  EXPECT_TRUE(run.training.make_scheduler_context()->sync_gradients());
}

}  // namespace
}  // namespace accelerate
