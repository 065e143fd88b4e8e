// SPDX-License-Identifier: Apache-2.0
// Accumulation together with everything else that decides when gradients
// appear: local training, joined inputs, parameters that change their mind.
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/error.h"
#include "accelerate/local_sgd.h"
#include "accelerate/optim.h"
#include "accelerator/loss_scaling.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/training.h"

namespace accelerate {
namespace {

class GradientCases : public testing::TestWithParam<int> {
 protected:
  static void each(const std::function<void(Group&)>& body) {
    run_on_ranks(GetParam(), quick(Backend::shm), body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, GradientCases, testing::Values(1, 2, 3));

AcceleratorOptions accumulating(
    std::int64_t steps,
    AccumulationWeighting weighting = AccumulationWeighting::fixed) {
  AcceleratorOptions options;
  options.gradient_accumulation_plugin =
      GradientAccumulationPlugin{.num_steps = steps, .weighting = weighting};
  return options;
}

// The gradients of a copy of the net, weighed and added up.
class Expected {
 public:
  void add(const at::Tensor& rows, double weight = 1) {
    net_loss(net_, rows).mul(weight).backward();
  }
  at::Tensor second() const { return net_->second->weight.grad(); }
  at::Tensor first() const { return net_->first->weight.grad(); }

 private:
  Net net_ = make_net();
};

void expect_close(const at::Tensor& ours, const at::Tensor& expected) {
  ASSERT_TRUE(ours.defined());
  EXPECT_LE(ours.sub(expected).abs().max().item<double>(), 1e-6);
}

TEST_P(GradientCases, LocalTrainingWaitsForACompleteAccumulation) {
  each([](Group& group) {
    Net net = make_net();
    SGD optimizer(net->parameters(), 0.1);
    Accelerator accelerator(PartialState(group), accumulating(2));
    accelerator.prepare(net, optimizer);
    LocalSGD local(accelerator, *net, {.local_sgd_steps = 100});
    Net alone = make_net();
    SGD reference(alone->parameters(), 0.1);
    for (int micro = 0; micro < 4; ++micro) {
      const auto rows = batch_of(group.rank(), micro);
      const auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, rows));
      EXPECT_EQ(net->first->weight.grad().defined(), micro % 2 == 1);
      optimizer.step();
      optimizer.zero_grad();
      net_loss(alone, rows).div(2).backward();
      if (micro % 2 == 1) {
        reference.step();
        reference.zero_grad();
      }
      EXPECT_LE(
          largest_difference(net->parameters(), alone->parameters()), 1e-6)
          << "micro-step " << micro;
    }
  });
}

TEST_P(GradientCases, LocalTrainingWeighsItsOwnBatches) {
  each([](Group& group) {
    Net net = make_net();
    Accelerator accelerator(
        PartialState(group), accumulating(2, AccumulationWeighting::weighted));
    accelerator.prepare(net);
    const auto local = accelerator.no_sync();
    Expected expected;
    for (int micro = 0; micro < 2; ++micro) {
      const double tokens = 1 + group.rank() + micro;
      const auto rows = batch_of(group.rank(), micro);
      const auto region = accelerator.accumulate(tokens);
      accelerator.backward(net_loss(net, rows));
      expected.add(rows, tokens / (3 + 2 * group.rank()));
    }
    expect_close(net->first->weight.grad(), expected.first());
  });
}

// What was summed before stays; the new one begins where it joined.
TEST_P(GradientCases, UnfrozenInTheMiddleOfAnAccumulation) {
  each([](Group& group) {
    Net net = make_net();
    net->first->weight.set_requires_grad(false);
    Accelerator accelerator(PartialState(group), accumulating(3));
    accelerator.prepare(net);
    Expected all;
    Expected later;
    for (int micro = 0; micro < 3; ++micro) {
      if (micro == 1) {
        net->first->weight.set_requires_grad(true);
      }
      const auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch_of(group.rank(), micro)));
      EXPECT_EQ(net->first->weight.grad().defined(), micro == 2);
      for (int rank = 0; rank < group.size(); ++rank) {
        const double weight = 1.0 / (3 * group.size());
        all.add(batch_of(rank, micro), weight);
        if (micro > 0) {
          later.add(batch_of(rank, micro), weight);
        }
      }
    }
    expect_close(net->second->weight.grad(), all.second());
    expect_close(net->first->weight.grad(), later.first());
  });
}

TEST(Accumulate, TakesModelsThatWerePrepared) {
  Net net = make_net();
  Net other = make_net();
  Accelerator accelerator(PartialState(Group()), accumulating(2));
  accelerator.prepare(net);

  const auto region = accelerator.accumulate(net);

  EXPECT_FALSE(accelerator.sync_gradients());
  EXPECT_EQ(
      message_of<StateError>(
          [&] { static_cast<void>(accelerator.accumulate(net, other)); }),
      "accumulate got a model that was not prepared");
}

TEST_P(GradientCases, AllFrozenAtFirst) {
  each([](Group& group) {
    torch::nn::Linear layer(2, 1);
    for (const at::Tensor& parameter : layer->parameters()) {
      parameter.set_requires_grad(false);
    }
    Accelerator accelerator(PartialState(group), accumulating(2));
    accelerator.prepare(layer);
    layer->weight.set_requires_grad(true);
    for (int micro = 0; micro < 2; ++micro) {
      const auto region = accelerator.accumulate();
      accelerator.backward(layer(at::ones({1, 2}).mul(group.rank())).sum());
      EXPECT_EQ(layer->weight.grad().defined(), micro == 1);
    }
    expect_close(
        layer->weight.grad(), at::full({1, 2}, (group.size() - 1) / 2.0));
  });
}

TEST_P(GradientCases, PreparedAgainInTheMiddleOfAnAccumulation) {
  each([](Group& group) {
    Net net = make_net();
    Accelerator accelerator(PartialState(group), accumulating(2));
    accelerator.prepare(net);
    Expected expected;
    for (int micro = 0; micro < 2; ++micro) {
      const auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch_of(group.rank(), micro)));
      accelerator.prepare(net);
      for (int rank = 0; rank < group.size(); ++rank) {
        expected.add(batch_of(rank, micro), 0.5 / group.size());
      }
    }
    expect_close(net->first->weight.grad(), expected.first());
  });
}

// Rank r has r + 1 batches, and the weights of those that train count.
TEST_P(GradientCases, JoinedRanksWeighNothing) {
  each([](Group& group) {
    Net net = make_net();
    Accelerator accelerator(
        PartialState(group), accumulating(1, AccumulationWeighting::weighted));
    accelerator.prepare(net);
    const auto tokens = [](int rank) { return 2.0 + rank; };
    const auto join = accelerator.join_uneven_inputs();
    for (int step = 0; step <= group.rank(); ++step) {
      Expected expected;
      double sum = 0;
      for (int rank = step; rank < group.size(); ++rank) {
        sum += tokens(rank);
      }
      for (int rank = step; rank < group.size(); ++rank) {
        expected.add(batch_of(rank, step), tokens(rank) / sum);
      }
      const auto region = accelerator.accumulate(tokens(group.rank()));
      accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
      expect_close(net->first->weight.grad(), expected.first());
      net->zero_grad();
    }
  });
}

struct CountingImpl : torch::nn::Module {
  CountingImpl() {
    weight = register_parameter("weight", at::ones({2}));
    seen = register_buffer("seen", at::zeros({1}));
  }
  at::Tensor forward() {
    const at::NoGradGuard guard;
    seen.add_(1);
    return weight;
  }
  at::Tensor weight;
  at::Tensor seen;
};

// Rank 0 is done first; its old buffers must not reach those that go on.
TEST_P(GradientCases, BuffersOfJoinedInputsAreThoseOfARankThatTrains) {
  each([](Group& group) {
    auto model = std::make_shared<CountingImpl>();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(model);
    {
      const auto join = accelerator.join_uneven_inputs();
      for (int step = 0; step <= group.rank(); ++step) {
        model->forward();
        accelerator.backward(model->weight.sum());
        EXPECT_EQ(model->seen.item<float>(), step + 1) << group.rank();
        model->zero_grad();
      }
    }
    EXPECT_EQ(model->seen.item<float>(), group.size());
  });
}

TEST_P(GradientCases, JoinRefusesToSyncEachBatch) {
  each([](Group& group) {
    AcceleratorOptions options = accumulating(2);
    options.gradient_accumulation_plugin->sync_each_batch = true;
    Accelerator accelerator(PartialState(group), options);
    if (group.size() == 1) {
      EXPECT_NO_THROW(static_cast<void>(accelerator.join_uneven_inputs()));
    } else {
      EXPECT_THROW(
          static_cast<void>(accelerator.join_uneven_inputs()),
          UnsupportedError);
    }
  });
}

TEST_P(GradientCases, GradientsOfGradientsNeedOneProcess) {
  each([](Group& group) {
    Net net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    const auto backward = [&] {
      accelerator.backward(
          net_loss(net, batch_of(group.rank(), 0)), {.create_graph = true});
    };
    if (group.size() > 1) {
      EXPECT_THROW(backward(), UnsupportedError);
    } else {
      backward();
      EXPECT_TRUE(net->first->weight.grad().requires_grad());
      net->zero_grad();
    }
  });
}

// The second list of parameters must not be taken for one that was done.
TEST(LossScalingOfSeveralModels, SeesAllGradients) {
  const auto one = at::ones({3}).set_requires_grad(true);
  const auto two = at::ones({3}).set_requires_grad(true);
  SGD optimizer({one, two}, 0.1);
  LossScaling scaling({.init_scale = 1024}, c10::kCPU);
  scaling.attach(optimizer);
  for (const bool overflow : {false, true}) {
    scaling.begin_backward({one, two});
    scaling.scale(one.sum() + two.sum().mul(overflow ? INFINITY : 2))
        .backward();
    scaling.finish({one, two});

    EXPECT_TRUE(at::equal(one.grad(), at::ones({3})));
    EXPECT_EQ(two.grad().isfinite().all().item<bool>(), !overflow);
    EXPECT_EQ(scaling.step_was_skipped(), overflow);
    const auto before = one.clone();
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(at::equal(one, before), overflow);
  }
}

TEST(FreeMemory, KeepsWhatWasSetOnTheAccelerator) {
  Accelerator accelerator{PartialState(Group()), {}};
  Net net = make_net();
  accelerator.prepare(net);
  accelerator.set_gradient_accumulation_steps(3);
  accelerator.set_even_batches(false);
  accelerator.set_trigger();
  {
    const auto region = accelerator.no_sync();
    accelerator.free_memory(net);
  }

  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 3);
  EXPECT_FALSE(accelerator.even_batches());
  EXPECT_TRUE(accelerator.check_trigger());
  Net again = make_net();
  accelerator.prepare(again);
  accelerator.set_gradient_accumulation_steps(1);
  accelerator.backward(net_loss(again, batch_of(0, 0)));
  EXPECT_TRUE(again->first->weight.grad().defined());
}

TEST(Debug, LooksAtTheLoss) {
  PartialStateOptions options;
  options.environment.emplace();
  options.environment->emplace("ACCELERATE_DEBUG_MODE", "1");
  Accelerator accelerator(PartialState(options), {});
  const auto weight = at::ones({1}).set_requires_grad(true);

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { accelerator.backward(weight.mul(NAN).sum()); }),
      "backward got a loss of nan");
  EXPECT_NO_THROW(accelerator.backward(weight.sum()));
  PartialState::reset();
}

}  // namespace
}  // namespace accelerate
