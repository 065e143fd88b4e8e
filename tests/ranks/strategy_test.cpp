// SPDX-License-Identifier: Apache-2.0
// Tests the contract of strategies, with one process and with several ranks.
#include "parallel/strategy.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

// The number of ranks: 1 for the strategy of one process.
class Strategies : public testing::TestWithParam<int> {
 protected:
  // Runs `body` on every rank, with a model of two parameters that differ
  // between ranks.
  static void run(const std::function<void(Strategy&, const Group&)>& body) {
    const auto on_rank = [&](const Group& group) {
      const auto strategy = make_strategy(group, BucketOptions{});
      body(*strategy, group);
    };
    if (GetParam() == 1) {
      on_rank(Group());
    } else {
      run_on_ranks(GetParam(), quick(Backend::shm), on_rank);
    }
  }

  static NamedTensors model_of(const Group& group) {
    return {
        {"weight", "bias"},
        {at::full({3}, group.rank() + 1.0).requires_grad_(),
         at::full({2}, group.rank() + 1.0).requires_grad_()}};
  }

  // The mean of 1, 2, … over the ranks.
  static double mean_of_ranks() { return (GetParam() + 1) / 2.0; }
};

at::Tensor loss_of(const NamedTensors& model, double factor) {
  return (model.tensors[0].sum() + model.tensors[1].sum()) * factor;
}

void expect_gradients(const NamedTensors& model, double value) {
  for (const at::Tensor& parameter : model.tensors) {
    ASSERT_TRUE(parameter.grad().defined());
    EXPECT_TRUE(
        parameter.grad().allclose(at::full_like(parameter.grad(), value)));
  }
}

TEST_P(Strategies, ReplicateTheModelOfRank0) {
  run([](Strategy& strategy, const Group& group) {
    const NamedTensors model = model_of(group);
    const NamedTensors buffers = {{"mean"}, {at::full({1}, group.rank())}};

    const at::NoGradGuard guard;
    strategy.replicate(model, buffers);

    EXPECT_TRUE(model.tensors[0].equal(at::ones({3})));
    EXPECT_EQ(buffers.tensors[0].item<int>(), 0);
  });
}

TEST_P(Strategies, GradientsAreFinalAfterEndBackward) {
  run([](Strategy& strategy, const Group& group) {
    const NamedTensors model = model_of(group);
    const auto path = strategy.make_path(model);
    for (int step = 0; step < 3; ++step) {
      strategy.begin_backward({{path.get(), Sync::now}});
      loss_of(model, group.rank() + 1).backward();
      strategy.end_backward();

      expect_gradients(model, mean_of_ranks());
      for (const at::Tensor& parameter : model.tensors) {
        parameter.mutable_grad().reset();
      }
    }
  });
}

TEST_P(Strategies, SeveralModelsShareABackwardPass) {
  run([](Strategy& strategy, const Group& group) {
    const NamedTensors first = model_of(group);
    const NamedTensors second = model_of(group);
    const auto first_path = strategy.make_path(first);
    const auto second_path = strategy.make_path(second);

    strategy.begin_backward(
        {{first_path.get(), Sync::now}, {second_path.get(), Sync::visible}});
    (loss_of(first, group.rank() + 1) + loss_of(second, group.rank() + 1))
        .backward();
    strategy.end_backward();

    expect_gradients(first, mean_of_ranks());
    expect_gradients(second, group.rank() + 1);
  });
}

TEST_P(Strategies, AFailedBackwardPassDropsTheGradientsOnEveryRank) {
  run([](Strategy& strategy, const Group& group) {
    const NamedTensors model = model_of(group);
    const auto path = strategy.make_path(model);

    strategy.begin_backward({{path.get(), Sync::now}});
    loss_of(model, 1).backward();
    if (group.rank() == 0) {
      strategy.fail_backward();
    } else {
      EXPECT_THROW(strategy.end_backward(), RankError);
    }

    EXPECT_FALSE(model.tensors[0].grad().defined());
    strategy.begin_backward({{path.get(), Sync::now}});
    loss_of(model, group.rank() + 1).backward();
    strategy.end_backward();
    expect_gradients(model, mean_of_ranks());
  });
}

TEST_P(Strategies, ARankWithoutBatchesJoinsWithZeros) {
  run([](Strategy& strategy, const Group& group) {
    const NamedTensors model = model_of(group);
    const auto path = strategy.make_path(model);
    const bool trains = group.rank() == 0;

    if (trains) {
      strategy.begin_backward({{path.get(), Sync::now}});
      loss_of(model, 6).backward();
      strategy.end_backward();
      expect_gradients(model, 6.0 / GetParam());
    } else {
      strategy.join_backward({path.get()});
      EXPECT_FALSE(model.tensors[0].grad().defined());
    }
  });
}

TEST_P(Strategies, EveryRankOwnsWholeParameters) {
  run([](Strategy& strategy, const Group&) {
    const FlatRange range = strategy.owned_range(at::ones({3, 4}));

    EXPECT_EQ(range.offset, 0);
    EXPECT_EQ(range.length, 12);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, Strategies, testing::Values(1, 2, 3), [](const auto& test) {
      return std::to_string(test.param);
    });

TEST(DataParallelStrategy, RejectsDifferentModels) {
  run_on_ranks(2, quick(Backend::shm), [](const Group& group) {
    const auto strategy = make_strategy(group, BucketOptions{});
    const NamedTensors model = {{"weight"}, {at::ones({group.rank() + 1})}};

    EXPECT_THROW(strategy->replicate(model, {}), MismatchError);
  });
}

TEST(DataParallelStrategy, CannotBeCaptured) {
  run_on_ranks(2, quick(Backend::shm), [](const Group& group) {
    EXPECT_EQ(
        make_strategy(group, BucketOptions{})->capture_obstacle(),
        "gradients from 2 processes are averaged while backward runs");
  });
  EXPECT_EQ(make_strategy(Group(), BucketOptions{})->capture_obstacle(), "");
}

}  // namespace
}  // namespace accelerate
