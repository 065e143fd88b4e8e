// SPDX-License-Identifier: Apache-2.0
// Compares training on several ranks with training in one process on all rows.
#include "accelerate/accelerator.h"

#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator_nests.h"
#include "accelerate/autocast.h"
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

constexpr int kSteps = 6;

void expect_same(
    const std::vector<at::Tensor>& actual,
    const std::vector<at::Tensor>& expected,
    double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], tolerance, tolerance))
        << "parameter " << i << " differs by "
        << actual[i].sub(expected[i]).abs().max().item<float>();
  }
}

using Case = std::tuple<int, Kind, int>;

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, EqualsOneProcessWithTheSameRows) {
  const int size = std::get<0>(GetParam());
  const Kind kind = std::get<1>(GetParam());
  const int micro = std::get<2>(GetParam());
  SingleProcessTraining alone{
      .kind = kind, .ranks = size, .micro_batches = micro};
  const auto by_rows = alone.train()->parameters();
  alone.one_forward = false;
  const auto by_sums = alone.train()->parameters();

  run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
    // Every rank starts with different weights; prepare makes them equal.
    auto net = make_net(7 + group.rank());
    Accelerator accelerator(
        PartialState(group), {.gradient_accumulation_steps = micro});
    auto optimizer = make_optimizer(kind, net);
    accelerator.prepare(net, *optimizer);
    for (int step = 0; step < kSteps; ++step) {
      auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
      optimizer->step();
      optimizer->zero_grad();
    }
    EXPECT_LE(largest_difference(net->parameters(), by_rows), 1e-6);
    // Sums in rank order, then one division: equal bit for bit.
    EXPECT_EQ(largest_difference(net->parameters(), by_sums), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Ranks,
    Training,
    testing::Combine(
        testing::Values(1, 2, 3, 5),
        testing::Values(
            Kind::torch_sgd,
            Kind::torch_momentum,
            Kind::torch_adamw,
            Kind::sgd,
            Kind::adamw),
        testing::Values(1, 3)),
    [](const auto& test) {
      return name_of(std::get<1>(test.param)) + "On" +
             std::to_string(std::get<0>(test.param)) + "By" +
             std::to_string(std::get<2>(test.param));
    });

class Ranks : public testing::TestWithParam<int> {
 protected:
  static void each(const std::function<void(Group&)>& body) {
    run_on_ranks(GetParam(), quick(Backend::shm), body);
  }
};

INSTANTIATE_TEST_SUITE_P(Accelerator, Ranks, testing::Values(1, 2, 3));

TEST_P(Ranks, TwoModelsAndTwoOptimizers) {
  each([](Group& group) {
    auto a = make_net(1);
    auto b = make_net(2);
    SGD first(a->parameters(), 0.1);
    torch::optim::SGD second(b->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(second, a, first, b);
    for (int step = 0; step < 3; ++step) {
      const auto rows = batch_of(group.rank(), step);
      accelerator.backward(net_loss(a, rows));
      EXPECT_FALSE(b->first->weight.grad().defined());
      first.step();
      first.zero_grad();
      accelerator.backward(net_loss(b, rows).add(net_loss(a, rows).detach()));
      second.step();
      second.zero_grad();
    }
    const auto everybody = group.gather({a->first->weight.view({1, -1})})[0];
    for (int r = 1; r < group.size(); ++r) {
      EXPECT_TRUE(at::equal(everybody[r], everybody[0]));
    }
  });
}

TEST_P(Ranks, SeveralBackwardsBeforeOneStepAddUp) {
  each([](Group& group) {
    auto net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    const auto rows = batch_of(group.rank(), 0);

    accelerator.backward(net_loss(net, rows));
    const auto once = net->first->weight.grad().clone();
    accelerator.backward(net_loss(net, rows));

    EXPECT_TRUE(at::allclose(net->first->weight.grad(), once.mul(2)));
  });
}

TEST_P(Ranks, NoSyncKeepsLocalGradientsVisible) {
  each([](Group& group) {
    auto net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    const auto rows = batch_of(group.rank(), 0);
    auto alone = make_net();
    net_loss(alone, rows).backward();
    {
      auto region = accelerator.no_sync();
      accelerator.backward(net_loss(net, rows));
      EXPECT_TRUE(
          at::allclose(net->first->weight.grad(), alone->first->weight.grad()));
      accelerator.trigger_sync_in_backward();
      accelerator.backward(net_loss(net, rows));
    }
    const auto mean =
        group.reduce({alone->first->weight.grad()}, Reduction::mean)[0];
    EXPECT_TRUE(
        at::allclose(net->first->weight.grad(), mean.mul(2), 1e-4, 1e-6));
  });
}

TEST_P(Ranks, WeightedAccumulationDividesByAllTokens) {
  each([](Group& group) {
    auto net = make_net();
    Accelerator accelerator(
        PartialState(group),
        {.gradient_accumulation_plugin = GradientAccumulationPlugin{
             .num_steps = 2, .weighting = AccumulationWeighting::weighted}});
    accelerator.prepare(net);
    for (int micro = 0; micro < 2; ++micro) {
      const double tokens = 1 + group.rank() + 3 * micro;
      auto region = accelerator.accumulate(tokens);
      accelerator.backward(net_loss(net, batch_of(group.rank(), micro)));
    }

    auto alone = make_net();
    at::Tensor sum = at::zeros({});
    double all = 0;
    for (int r = 0; r < group.size(); ++r) {
      for (int micro = 0; micro < 2; ++micro) {
        const double tokens = 1 + r + 3 * micro;
        all += tokens;
        sum = sum.add(net_loss(alone, batch_of(r, micro)).mul(tokens));
      }
    }
    sum.div(all).backward();
    EXPECT_TRUE(at::allclose(
        net->first->weight.grad(), alone->first->weight.grad(), 1e-4, 1e-6));
  });
}

TEST_P(Ranks, SyncEachBatchGivesTheSameSum) {
  each([](Group& group) {
    auto net = make_net();
    Accelerator accelerator(
        PartialState(group),
        {.gradient_accumulation_plugin = GradientAccumulationPlugin{
             .num_steps = 2, .sync_each_batch = true}});
    accelerator.prepare(net);
    for (int micro = 0; micro < 2; ++micro) {
      auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch_of(group.rank(), micro)));
      EXPECT_EQ(net->first->weight.grad().defined(), micro == 1);
    }
    auto alone = make_net();
    for (int r = 0; r < group.size(); ++r) {
      for (int micro = 0; micro < 2; ++micro) {
        net_loss(alone, batch_of(r, micro)).div(2 * group.size()).backward();
      }
    }
    EXPECT_TRUE(at::allclose(
        net->first->weight.grad(), alone->first->weight.grad(), 1e-4, 1e-6));
  });
}

// Rank r has r + 1 batches.
TEST_P(Ranks, JoinLetsRanksRunOutOfBatches) {
  each([](Group& group) {
    auto net = make_net();
    SGD optimizer(net->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net, optimizer);
    {
      auto region = accelerator.join_uneven_inputs();
      for (int step = 0; step <= group.rank(); ++step) {
        accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    auto alone = make_net();
    // This optimizer updates a tied weight once.
    SGD reference(alone->parameters(), 0.1);
    for (int step = 0; step < group.size(); ++step) {
      for (int r = step; r < group.size(); ++r) {
        net_loss(alone, batch_of(r, step)).div(group.size()).backward();
      }
      reference.step();
      reference.zero_grad();
    }
    expect_same(net->parameters(), alone->parameters());
  });
}

TEST_P(Ranks, PicksUpParametersThatWereAddedOrUnfrozen) {
  each([](Group& group) {
    auto net = make_net();
    net->first->weight.set_requires_grad(false);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));
    EXPECT_FALSE(net->first->weight.grad().defined());
    net->zero_grad();

    net->first->weight.set_requires_grad(true);
    const auto extra = net->register_parameter("extra", at::ones({2}));
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0))
                             .add(extra.sum().mul(group.rank())));

    EXPECT_TRUE(net->first->weight.grad().defined());
    EXPECT_TRUE(
        at::allclose(extra.grad(), at::full({2}, (group.size() - 1) / 2.0)));
  });
}

TEST_P(Ranks, Bf16TrainsCloseToFp32AndEqualOnAllRanks) {
  each([](Group& group) {
    auto net = make_net();
    SGD optimizer(net->parameters(), 0.1);
    Accelerator accelerator(
        PartialState(group),
        {.mixed_precision = Precision::bf16,
         .autocast_scope = AutocastScope::manual});
    accelerator.prepare(net, optimizer);
    for (int step = 0; step < kSteps; ++step) {
      at::Tensor loss;
      {
        const auto guard = accelerator.autocast();
        loss = net_loss(net, batch_of(group.rank(), step));
      }
      accelerator.backward(loss);
      EXPECT_EQ(net->first->weight.grad().scalar_type(), at::kFloat);
      optimizer.step();
      optimizer.zero_grad();
    }
    // bf16 has 8 significant bits, so six steps of 0.1 change the weights by
    // small errors only.
    expect_same(
        net->parameters(),
        SingleProcessTraining{.kind = Kind::torch_sgd, .ranks = group.size()}
            .train()
            ->parameters(),
        0.02);
    const auto all = group.gather({net->first->weight.view({1, -1})})[0];
    for (int r = 1; r < group.size(); ++r) {
      EXPECT_TRUE(at::equal(all[r], all[0]));
    }
  });
}

TEST_P(Ranks, TriggerReachesEveryRankOnce) {
  each([](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    EXPECT_FALSE(accelerator.check_trigger());
    if (group.rank() == group.size() - 1) {
      accelerator.set_trigger();
    }
    EXPECT_TRUE(accelerator.check_trigger());
    EXPECT_FALSE(accelerator.check_trigger());
  });
}

TEST_P(Ranks, LocalSgdAveragesEveryFewSteps) {
  each([](Group& group) {
    auto net = make_net();
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net, optimizer);
    LocalSGD local(accelerator, *net, {.local_sgd_steps = 2});
    for (int step = 1; step <= 4; ++step) {
      accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
      optimizer.step();
      optimizer.zero_grad();
      local.step();
      const auto all = group.gather({net->first->weight.view({1, -1})})[0];
      if (group.size() > 1) {
        EXPECT_EQ(at::equal(all[1], all[0]), step % 2 == 0) << step;
      }
    }
    local.finish();
  });
}

TEST_P(Ranks, ClipsTheNormOfTheAveragedGradients) {
  each([](Group& group) {
    auto net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));

    const auto norm = accelerator.clip_grad_norm_(net->parameters(), 0.01);
    const auto after = accelerator.clip_grad_norm_(net->parameters(), 0.01);

    EXPECT_GT(norm.item<float>(), 0.01);
    EXPECT_NEAR(after.item<float>(), 0.01, 1e-4);
    const auto all = group.gather({norm})[0];
    EXPECT_TRUE(at::equal(all, all[0].expand_as(all)));
  });
}

}  // namespace
}  // namespace accelerate
