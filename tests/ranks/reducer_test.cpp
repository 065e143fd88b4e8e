// SPDX-License-Identifier: Apache-2.0
// Compares the gradients of several ranks with the gradients of one process.
#include "parallel/reducer.h"

#include <mutex>

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/error.h"
#include "comm/group_backends.h"
#include "parallel/local_gradients.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

// Takes a lock, because modules use the random generator of the process.
torch::nn::Sequential small_net() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(7);
  return torch::nn::Sequential(
      torch::nn::Linear(6, 33),
      torch::nn::ReLU(),
      torch::nn::Linear(33, 17),
      torch::nn::ReLU(),
      torch::nn::Linear(17, 1));
}

NamedTensors parameters_of(torch::nn::Module& module) {
  NamedTensors result;
  for (const auto& item : module.named_parameters()) {
    result.names.push_back(item.key());
    result.tensors.push_back(item.value());
  }
  return result;
}

at::Tensor rows_of(int rank, int step) {
  return at::arange(24, at::kFloat)
      .view({4, 6})
      .mul(0.1)
      .add(rank)
      .sin()
      .add(0.01 * step);
}

at::Tensor loss_of(torch::nn::Sequential& net, const at::Tensor& rows) {
  return net->forward(rows).pow(2).mean();
}

// The gradients of one process with the rows of all ranks.
std::vector<at::Tensor> expected_gradients(int size, int step) {
  auto net = small_net();
  std::vector<at::Tensor> rows;
  for (int rank = 0; rank < size; ++rank) {
    rows.push_back(rows_of(rank, step));
  }
  loss_of(net, at::cat(rows)).backward();
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : net->parameters()) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

void expect_close(
    const std::vector<at::Tensor>& parameters,
    const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(parameters[i].grad().defined()) << "parameter " << i;
    EXPECT_TRUE(at::allclose(parameters[i].grad(), expected[i], 1e-5, 1e-7))
        << "parameter " << i;
  }
}

class EverySize : public testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  void on_ranks(const std::function<void(Group&)>& body) {
    run_on_ranks(size(), quick(std::get<0>(GetParam())), body);
  }
  static int size() { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(
    Reducer,
    EverySize,
    testing::Combine(
        testing::Values(Backend::shm, Backend::gloo),
        testing::Values(2, 3, 5)));

// Small buckets, so that several are reduced at the same time.
Reducer::Options small_buckets() {
  Reducer::Options options;
  options.buckets.first_bytes = 64;
  options.buckets.bytes = 512;
  return options;
}

TEST_P(EverySize, AveragesLikeOneProcessWithAllRows) {
  on_ranks([](Group& group) {
    auto net = small_net();
    const auto parameters = parameters_of(*net);
    Reducer reducer(group, parameters, small_buckets());
    EXPECT_GT(reducer.num_buckets(), 2);

    for (int step = 0; step < 4; ++step) {
      reducer.begin(Sync::now);
      loss_of(net, rows_of(group.rank(), step)).backward();
      reducer.end();

      expect_close(parameters.tensors, expected_gradients(group.size(), step));
      net->zero_grad(/*set_to_none=*/step % 2 == 0);
    }
  });
}

TEST_P(EverySize, HidesTheSumUntilItSynchronises) {
  on_ranks([](Group& group) {
    auto net = small_net();
    const auto parameters = parameters_of(*net);
    Reducer reducer(group, parameters, small_buckets());

    for (int update = 0; update < 3; ++update) {
      for (const Sync sync : {Sync::later, Sync::later, Sync::now}) {
        reducer.begin(sync);
        loss_of(net, rows_of(group.rank(), 0)).backward();
        reducer.end();
        EXPECT_EQ(parameters.tensors[0].grad().defined(), sync == Sync::now);
      }
      auto expected = expected_gradients(group.size(), 0);
      for (auto& gradient : expected) {
        gradient.mul_(3);
      }
      expect_close(parameters.tensors, expected);
      net->zero_grad();
    }
  });
}

TEST_P(EverySize, AddsToGradientsThatWereNotCleared) {
  on_ranks([](Group& group) {
    auto net = small_net();
    const auto parameters = parameters_of(*net);
    Reducer reducer(group, parameters, small_buckets());

    for (int step = 0; step < 3; ++step) {
      reducer.begin(Sync::now);
      loss_of(net, rows_of(group.rank(), 0)).backward();
      reducer.end();
    }

    auto expected = expected_gradients(group.size(), 0);
    for (auto& gradient : expected) {
      gradient.mul_(3);
    }
    expect_close(parameters.tensors, expected);
  });
}

// Each rank uses one of the first two branches. No rank uses the last branch.
TEST_P(EverySize, FindsUnusedParameters) {
  on_ranks([](Group& group) {
    const auto make = [] { return at::ones({5}).set_requires_grad(true); };
    const std::vector<at::Tensor> branches = {make(), make(), make()};
    Reducer reducer(group, {{"a", "b", "unused"}, branches}, small_buckets());

    for (int step = 0; step < 3; ++step) {
      reducer.begin(Sync::now);
      branches[group.rank() % 2].sum().backward();
      reducer.end();

      const double on_a = (group.size() + 1) / 2;
      EXPECT_TRUE(
          at::allclose(branches[0].grad(), at::full({5}, on_a / group.size())));
      EXPECT_TRUE(at::allclose(
          branches[1].grad(), at::full({5}, 1 - on_a / group.size())));
      EXPECT_FALSE(branches[2].grad().defined());
      for (const auto& branch : branches) {
        branch.mutable_grad().reset();
      }
    }
  });
}

// In the second step rank 0 uses a parameter twice, in two graphs: its bucket
// has already started when the second gradient is ready.
TEST_P(EverySize, ReducesLateGradientsInASecondRound) {
  on_ranks([](Group& group) {
    const auto a = at::ones({5}).set_requires_grad(true);
    const auto b = at::ones({5}).set_requires_grad(true);
    Reducer reducer(group, {{"a", "b"}, {a, b}}, small_buckets());
    for (int step = 0; step < 3; ++step) {
      reducer.begin(Sync::now);
      b.sum().backward();
      a.sum().backward();
      if (step == 1 && group.rank() == 0) {
        b.mul(10).sum().backward();
      }
      reducer.end();

      const double extra = step == 1 ? 10.0 / group.size() : 0;
      EXPECT_TRUE(at::allclose(b.grad(), at::full({5}, 1 + extra)))
          << b.grad() << " step " << step;
      EXPECT_TRUE(at::allclose(a.grad(), at::ones({5})));
      a.mutable_grad().reset();
      b.mutable_grad().reset();
    }
  });
}

TEST_P(EverySize, ReportsTheFailureOfARankToTheOtherRanks) {
  on_ranks([](Group& group) {
    auto net = small_net();
    const auto parameters = parameters_of(*net);
    Reducer reducer(group, parameters, small_buckets());

    for (int step = 0; step < 3; ++step) {
      reducer.begin(Sync::now);
      if (group.rank() == 1 && step == 1) {
        reducer.fail();
        continue;
      }
      loss_of(net, rows_of(group.rank(), 0)).backward();
      if (step == 1) {
        EXPECT_THROW(reducer.end(), RankError);
        EXPECT_FALSE(parameters.tensors[0].grad().defined());
        continue;
      }
      reducer.end();
      expect_close(parameters.tensors, expected_gradients(group.size(), 0));
      net->zero_grad();
    }
  });
}

TEST_P(EverySize, MatchesLibTorchsReducer) {
  on_ranks([](Group& group) {
    auto net = small_net();
    auto reference = small_net();
    Reducer reducer(group, parameters_of(*net), small_buckets());
    const auto parameters = reference->parameters();
    auto [buckets, limits] =
        c10d::compute_bucket_assignment_by_size(parameters, {512, 1024});
    std::reverse(buckets.begin(), buckets.end());
    c10d::Reducer oracle(
        parameters,
        buckets,
        GroupBackends::process_group(group),
        std::vector<bool>(parameters.size(), false),
        1024,
        false,
        false,
        {},
        512,
        false,
        false,
        {});

    for (int step = 0; step < 3; ++step) {
      const auto rows = rows_of(group.rank(), step);
      reducer.begin(Sync::now);
      loss_of(net, rows).backward();
      reducer.end();
      oracle.prepare_for_forward();
      auto loss = loss_of(reference, rows);
      oracle.prepare_for_backward({loss});
      loss.backward();

      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(at::allclose(
            net->parameters()[i].grad(), parameters[i].grad(), 1e-6, 1e-8));
      }
      net->zero_grad();
      reference->zero_grad();
    }
  });
}

TEST_P(EverySize, ReducesInALowerPrecisionOnRequest) {
  on_ranks([](Group& group) {
    auto net = small_net();
    const auto parameters = parameters_of(*net);
    auto options = small_buckets();
    options.buckets.wire_type = at::kBFloat16;
    Reducer reducer(group, parameters, options);

    for (int step = 0; step < 3; ++step) {
      reducer.begin(Sync::now);
      loss_of(net, rows_of(group.rank(), step)).backward();
      reducer.end();
      const auto expected = expected_gradients(group.size(), step);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto& gradient = parameters.tensors[i].grad();
        EXPECT_TRUE(
            at::equal(gradient, gradient.to(at::kBFloat16).to(at::kFloat)));
        // bf16 has 8 bits; the contribution of each rank and the result are
        // each rounded once.
        EXPECT_TRUE(at::allclose(gradient, expected[i], 0.02, 1e-3));
      }
      net->zero_grad();
    }
  });
}

TEST(LocalGradients, HidesTheSumBetweenMicroBatches) {
  auto net = small_net();
  const auto parameters = parameters_of(*net);
  LocalGradients path(parameters);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto before = parameters.tensors[0].detach().clone();

  for (const Sync sync : {Sync::later, Sync::later, Sync::now}) {
    path.begin(sync);
    loss_of(net, rows_of(0, 0)).backward();
    path.end();
    if (sync == Sync::later) {
      EXPECT_FALSE(parameters.tensors[0].grad().defined());
      optimizer.step();
      EXPECT_TRUE(at::equal(parameters.tensors[0], before));
    }
  }

  auto expected = expected_gradients(1, 0);
  for (auto& gradient : expected) {
    gradient.mul_(3);
  }
  expect_close(parameters.tensors, expected);
}

}  // namespace
}  // namespace accelerate
