// SPDX-License-Identifier: Apache-2.0
// Valid and invalid input of an Accelerator.
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/local_sgd.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/training.h"

namespace accelerate {
namespace {

TEST(Accelerator, ReportsDifferencesBetweenModels) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    torch::nn::Linear layer(3, group.rank() == 0 ? 4 : 5);

    EXPECT_EQ(
        message_of<MismatchError>([&] { accelerator.prepare(layer); }),
        "the ranks have different models\n"
        "  parameter 0: rank 0 has weight Float[4, 3], rank 1 has weight "
        "Float[5, 3]\n"
        "  parameter 1: rank 0 has bias Float[4], rank 1 has bias Float[5]");
  });
}

struct ModelCase {
  const char* name;
  std::function<void(torch::nn::Module&)> build;  // Runs on rank 1.
  const char* difference;
};

class DifferentModels : public testing::TestWithParam<ModelCase> {};

INSTANTIATE_TEST_SUITE_P(
    Accelerator,
    DifferentModels,
    testing::Values(
        ModelCase{
            "Name",
            [](auto& m) { m.register_parameter("other", at::ones({2})); },
            "rank 0 has weight Float[2], rank 1 has other Float[2]"},
        ModelCase{
            "Type",
            [](auto& m) {
              m.register_parameter("weight", at::ones({2}, at::kDouble));
            },
            "rank 0 has weight Float[2], rank 1 has weight Double[2]"},
        ModelCase{
            "Frozen",
            [](auto& m) {
              m.register_parameter("weight", at::ones({2}), false);
            },
            "rank 0 has weight Float[2], rank 1 has weight Float[2] frozen"},
        ModelCase{
            "Count",
            [](auto&) {},
            "rank 0 has weight Float[2], rank 1 has nothing"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(DifferentModels, AreReported) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    auto model = std::make_shared<torch::nn::Module>();
    if (group.rank() == 0) {
      model->register_parameter("weight", at::ones({2}));
    } else {
      GetParam().build(*model);
    }

    EXPECT_EQ(
        message_of<MismatchError>([&] { accelerator.prepare(model); }),
        std::string("the ranks have different models\n  parameter 0: ") +
            GetParam().difference);
  });
}

TEST(Accelerator, ReportsDifferentBuffers) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    auto model = std::make_shared<torch::nn::Module>();
    model->register_parameter("weight", at::ones({2}));
    model->register_buffer("mean", at::zeros({2 + group.rank()}));

    EXPECT_EQ(
        message_of<MismatchError>([&] { accelerator.prepare(model); }),
        "the ranks have different models\n"
        "  buffer 0: rank 0 has mean Float[2], rank 1 has mean Float[3]");
  });
}

TEST(Accelerator, ABackwardExceptionReachesTheOtherRanks) {
  run_on_ranks(3, quick(Backend::shm), [](Group& group) {
    auto net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    for (int step = 0; step < 3; ++step) {
      auto hidden = net(batch_of(group.rank(), step));
      if (step == 1 && group.rank() == 2) {
        hidden.register_hook([](const at::Tensor&) -> at::Tensor {
          throw std::runtime_error("no such gradient");
        });
        EXPECT_EQ(
            message_of<std::runtime_error>(
                [&] { accelerator.backward(hidden.mean()); }),
            "no such gradient");
      } else if (step == 1) {
        EXPECT_THROW(accelerator.backward(hidden.mean()), RankError);
      } else {
        accelerator.backward(hidden.mean());
        EXPECT_TRUE(net->first->weight.grad().defined());
        net->zero_grad();
      }
    }
  });
}

TEST(Accelerator, PreparingTwiceHasNoEffect) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    auto net = make_net();
    SGD optimizer(net->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net, optimizer);
    accelerator.prepare(optimizer, net);
    accelerator.backward(net_loss(net, batch_of(0, 0)));
    auto alone = make_net();
    net_loss(alone, batch_of(0, 0)).backward();
    EXPECT_TRUE(at::allclose(
        net->first->weight.grad(), alone->first->weight.grad(), 1e-4, 1e-6));
  });
}

TEST(Accelerator, AcceptsHoldersPointersAndReferences) {
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Linear holder(2, 2);
  auto pointer = std::make_shared<torch::nn::LinearImpl>(2, 2);
  torch::nn::Module& reference = *pointer;
  struct Handle {
    std::shared_ptr<torch::nn::Module> inner;
    std::shared_ptr<torch::nn::Module> module() const { return inner; }
  } handle{pointer};

  accelerator.prepare(holder, pointer, reference, handle);

  accelerator.backward(holder(at::ones({1, 2})).sum());
  EXPECT_TRUE(holder->weight.grad().defined());
}

struct BadCase {
  const char* name;
  std::function<void(Accelerator&)> call;
  const char* message;
};

class BadInput : public testing::TestWithParam<BadCase> {};

TEST_P(BadInput, HasTheExpectedMessage) {
  Accelerator accelerator{PartialState(Group()), {}};

  EXPECT_EQ(
      message_of<Error>([&] { GetParam().call(accelerator); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Accelerator,
    BadInput,
    testing::Values(
        BadCase{
            "LossShape",
            [](Accelerator& a) { a.backward(at::ones({2})); },
            "backward needs a scalar loss, but got shape [2]"},
        BadCase{
            "LossUndefined",
            [](Accelerator& a) { a.backward({}); },
            "backward got an undefined loss"},
        BadCase{
            "LossWithoutGraph",
            [](Accelerator& a) { a.backward(at::ones({})); },
            "backward got a loss without an autograd graph"},
        BadCase{
            "Steps",
            [](Accelerator& a) { a.set_gradient_accumulation_steps(0); },
            "`gradient_accumulation_steps` is 0"},
        BadCase{
            "StepsTwice",
            [](Accelerator&) {
              Accelerator(
                  PartialState(Group()),
                  {.gradient_accumulation_steps = 2,
                   .gradient_accumulation_plugin =
                       GradientAccumulationPlugin{}});
            },
            "`gradient_accumulation_steps` and `gradient_accumulation_plugin` "
            "are both set"},
        BadCase{
            "SplitTwice",
            [](Accelerator&) {
              Accelerator(
                  PartialState(Group()),
                  {.split_batches = true,
                   .dataloader_config = DataLoaderConfiguration{}});
            },
            "`split_batches` is true, but `dataloader_config.split_batches` is "
            "false"},
        BadCase{
            "WeightMissing",
            [](Accelerator&) {
              Accelerator weighted(
                  PartialState(Group()),
                  {.gradient_accumulation_plugin = GradientAccumulationPlugin{
                       .weighting = AccumulationWeighting::weighted}});
              static_cast<void>(weighted.accumulate());
            },
            "accumulate() got no weight, but `weighting` is `weighted`"},
        BadCase{
            "WeightUnwanted",
            [](Accelerator& a) { static_cast<void>(a.accumulate(2.0)); },
            "accumulate() got a weight, but `weighting` is not `weighted`"},
        BadCase{
            "NamesAndTensors",
            [](Accelerator& a) { a.prepare_parameters({"a"}, {}, {}); },
            "prepare_parameters got different numbers of names (1) and tensors "
            "(0)"},
        BadCase{
            "WeightNegative",
            [](Accelerator&) {
              Accelerator weighted(
                  PartialState(Group()),
                  {.gradient_accumulation_plugin = GradientAccumulationPlugin{
                       .weighting = AccumulationWeighting::weighted}});
              static_cast<void>(weighted.accumulate(-1.0));
            },
            "accumulate() got a weight of -1"},
        BadCase{
            "BucketSize",
            [](Accelerator&) {
              Accelerator(
                  PartialState(Group()), {.ddp_kwargs = {.bucket_cap_mb = 0}});
            },
            "`bucket_cap_mb` is 0"},
        BadCase{
            "PluginSteps",
            [](Accelerator&) {
              Accelerator(
                  PartialState(Group()), {.gradient_accumulation_steps = -1});
            },
            "`gradient_accumulation_steps` is -1"},
        BadCase{
            "ClipNorm",
            [](Accelerator& a) { a.clip_grad_norm_({}, -1); },
            "`max_norm` is -1"},
        BadCase{
            "ClipValue",
            [](Accelerator& a) { a.clip_grad_value_({}, -1); },
            "`clip_value` is -1"},
        BadCase{
            "OnProcess",
            [](Accelerator& a) { static_cast<void>(a.on_process(3, [] {})); },
            "on_process: index is 3, but the number of processes is 1"},
        BadCase{
            "LocalSteps",
            [](Accelerator& a) {
              torch::nn::Linear layer(1, 1);
              LocalSGD(a, *layer, {.local_sgd_steps = 0});
            },
            "`local_sgd_steps` is 0"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace accelerate
