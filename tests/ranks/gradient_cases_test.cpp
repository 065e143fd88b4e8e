// SPDX-License-Identifier: Apache-2.0
// Gradient accumulation combined with local training, joined inputs, and
// parameters that are frozen or unfrozen.
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/error.h"
#include "accelerate/local_sgd.h"
#include "accelerate/optim.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/training.h"
#include "training/loss_scaling.h"

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

// The weighted sum of the gradients of a copy of the net.
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

void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_TRUE(actual.defined());
  EXPECT_LE(actual.sub(expected).abs().max().item<double>(), 1e-6);
}

TEST_P(GradientCases, LocalTrainingStepsAfterACompleteAccumulation) {
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
          << "micro-batch " << micro;
    }
  });
}

TEST_P(GradientCases, LocalTrainingWeightsItsOwnBatches) {
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

// Existing sums are kept; the sum of the unfrozen parameter starts later.
TEST_P(GradientCases, AParameterIsUnfrozenDuringAnAccumulation) {
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

TEST(Accumulate, AcceptsOnlyPreparedModels) {
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

TEST_P(GradientCases, AllParametersAreFrozenAtFirst) {
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

TEST_P(GradientCases, AModelIsPreparedAgainDuringAnAccumulation) {
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

// Rank r has r + 1 batches; only the weights of ranks that train count.
TEST_P(GradientCases, JoinedRanksHaveNoWeight) {
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

// Rank 0 finishes first; its old buffers must not reach ranks that still train.
TEST_P(GradientCases, BuffersOfJoinedInputsComeFromARankThatTrains) {
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

TEST_P(GradientCases, JoinRejectsSyncEachBatch) {
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

TEST_P(GradientCases, CreateGraphNeedsOneProcess) {
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

// The gradients of the second parameter must be checked as well.
TEST(LossScaling, ChecksTheGradientsOfAllModels) {
  const auto first = at::ones({3}).set_requires_grad(true);
  const auto second = at::ones({3}).set_requires_grad(true);
  SGD optimizer({first, second}, 0.1);
  LossScaling scaling({.init_scale = 1024}, c10::kCPU);
  scaling.attach(optimizer);
  for (const bool overflow : {false, true}) {
    scaling.begin_backward({first, second});
    scaling.scale(first.sum() + second.sum().mul(overflow ? INFINITY : 2))
        .backward();
    scaling.finish({first, second});

    EXPECT_TRUE(at::equal(first.grad(), at::ones({3})));
    EXPECT_EQ(second.grad().isfinite().all().item<bool>(), !overflow);
    EXPECT_EQ(scaling.step_was_skipped(), overflow);
    const auto before = first.clone();
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_EQ(at::equal(first, before), overflow);
  }
}

TEST(FreeMemory, KeepsTheSettingsOfTheAccelerator) {
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

TEST(Debug, RejectsALossOfNan) {
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
