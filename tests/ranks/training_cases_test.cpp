// SPDX-License-Identifier: Apache-2.0
// Training with uneven data, several models and parameters of every kind always
// equals training in one process on all rows.
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/autocast.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "support/equality_cases.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/training.h"

namespace accelerate {
namespace {

// A few rounding errors of numbers around 1.
constexpr double kRounding = 1e-6;

class TrainingCases : public testing::TestWithParam<int> {
 protected:
  static int size() { return GetParam(); }
  static void each(const std::function<void(Group&)>& body) {
    run_on_ranks(size(), quick(Backend::shm), body);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, TrainingCases, testing::Values(1, 2, 3, 5));

void expect_equal_on_all_ranks(const Group& group, const at::Tensor& tensor) {
  const auto all = group.gather({tensor.detach().view({1, -1})})[0];
  for (int r = 1; r < group.size(); ++r) {
    EXPECT_TRUE(at::equal(all[r], all[0])) << "rank " << r;
  }
}

constexpr Kind kKinds[] = {
    Kind::torch_sgd, Kind::torch_adamw, Kind::sgd, Kind::adamw};

void for_each_kind(
    const std::function<void(Kind, const AcceleratorOptions&)>& body) {
  for (const Kind kind : kKinds) {
    for (const int micro : {1, 3}) {
      SCOPED_TRACE(name_of(kind) + ", accumulation " + std::to_string(micro));
      body(kind, {.gradient_accumulation_steps = micro});
    }
  }
}

TEST_P(TrainingCases, UnevenDataIsCompleted) {
  for_each_kind([](Kind kind, const AcceleratorOptions& options) {
    each([&](Group& group) {
      Accelerator accelerator(PartialState(group), options);
      EXPECT_LE(uneven_data(accelerator, kind, true), kRounding);
    });
  });
}

TEST_P(TrainingCases, UnevenDataIsJoined) {
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(name_of(kind));
    each([&](Group& group) {
      Accelerator accelerator{PartialState(group), {}};
      EXPECT_LE(uneven_data(accelerator, kind, false), kRounding);
    });
  }
}

TEST_P(TrainingCases, TwoModelsWithAnOptimizerEach) {
  for_each_kind([](Kind kind, const AcceleratorOptions& options) {
    each([&](Group& group) {
      Accelerator accelerator(PartialState(group), options);
      EXPECT_LE(two_models(accelerator, kind), kRounding);
    });
  });
}

TEST_P(TrainingCases, Bf16EqualsOneProcessInBf16) {
  for_each_kind([](Kind kind, AcceleratorOptions options) {
    options.mixed_precision = Precision::bf16;
    options.autocast_scope = AutocastScope::manual;
    each([&](Group& group) {
      const auto make = [&] {
        return Accelerator(PartialState(group), options);
      };
      EXPECT_LE(in_bf16(make, kind, true), kRounding);
    });
  });
}

TEST_P(TrainingCases, FrozenParametersStay) {
  each([](Group& group) {
    Net net = make_net();
    net->first->weight.set_requires_grad(false);
    const auto frozen = net->first->weight.clone();
    AdamW optimizer(net->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net, optimizer);

    for (int step = 0; step < 3; ++step) {
      accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
      optimizer.step();
      optimizer.zero_grad();
    }

    EXPECT_FALSE(net->first->weight.grad().defined());
    EXPECT_TRUE(at::equal(net->first->weight, frozen));
    expect_equal_on_all_ranks(group, net->second->weight);
  });
}

// With several ranks, the gradient is sent as a dense tensor with the same
// values.
TEST_P(TrainingCases, SparseGradientsHaveTheSameValues) {
  each([](Group& group) {
    const auto make = [] {
      return torch::nn::Embedding(
          torch::nn::EmbeddingOptions(7, 3).sparse(true)._weight(
              at::ones({7, 3})));
    };
    const auto loss = [](torch::nn::Embedding& model, int rank) {
      return model(at::tensor({1, rank, rank})).sum().mul(rank + 1);
    };
    auto model = make();
    auto alone = make();
    SGD optimizer(model->parameters(), 0.1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(model, optimizer);

    for (int step = 0; step < 3; ++step) {
      accelerator.backward(loss(model, group.rank()));
      for (int rank = 0; rank < group.size(); ++rank) {
        loss(alone, rank).div(group.size()).backward();
      }
      EXPECT_TRUE(at::allclose(
          model->weight.grad().to_dense(), alone->weight.grad().to_dense()));
      EXPECT_EQ(model->weight.grad().is_sparse(), group.size() == 1);
      optimizer.step();
      optimizer.zero_grad();
      alone->zero_grad();
    }
    expect_equal_on_all_ranks(group, model->weight);
  });
}

// Recomputes its block in the backward pass, as activation checkpointing does,
// so that one backward pass runs inside another.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      Net* net) {
    context->saved_data["net"] = reinterpret_cast<std::int64_t>(net);
    context->save_for_backward({x});
    const at::NoGradGuard guard;
    return (*net)(x);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    auto* net =
        reinterpret_cast<Net*>(context->saved_data["net"].toInt());  // NOLINT
    const at::AutoGradMode on(true);
    const auto x =
        context->get_saved_variables()[0].detach().set_requires_grad(true);
    (*net)(x).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

TEST_P(TrainingCases, ReentrantBackward) {
  each([](Group& group) {
    Net net = make_net();
    Net plain = make_net();
    Accelerator accelerator(
        PartialState(group), {.ddp_kwargs = {.bucket_cap_mb = 1e-4}});
    accelerator.prepare(net);
    const auto twice = [](Net& model, const at::Tensor& rows, bool again) {
      const auto x = rows.clone().set_requires_grad(true);
      const auto once = again ? Checkpointed::apply(x, &model) : model(x);
      // The weight is also used outside the block, so it gets two gradients at
      // different times.
      return once.pow(2).mean().add(model(rows).sum());
    };
    for (int step = 0; step < 4; ++step) {
      accelerator.backward(twice(net, batch_of(group.rank(), step), true));
      for (int rank = 0; rank < group.size(); ++rank) {
        twice(plain, batch_of(rank, step), false).div(group.size()).backward();
      }
      EXPECT_TRUE(at::allclose(
          net->second->weight.grad(), plain->second->weight.grad(), 1e-5, 1e-6))
          << "step " << step;
      net->zero_grad();
      plain->zero_grad();
    }
  });
}

TEST_P(TrainingCases, TheSameGraphTwice) {
  each([](Group& group) {
    Net net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    for (int step = 0; step < 3; ++step) {
      const auto loss = net_loss(net, batch_of(group.rank(), step));
      accelerator.backward(loss, {.retain_graph = true});
      const auto once = net->first->weight.grad().clone();
      accelerator.backward(loss);

      EXPECT_TRUE(at::allclose(net->first->weight.grad(), once.mul(2)));
      net->zero_grad();
    }
  });
}

TEST_P(TrainingCases, NarrowGradientsStayClose) {
  for (const CommHook hook : {CommHook::bf16, CommHook::fp16}) {
    each([hook](Group& group) {
      Net net = make_net();
      Net plain = make_net();
      Accelerator accelerator(
          PartialState(group), {.ddp_kwargs = {.comm_hook = hook}});
      accelerator.prepare(net);
      for (int step = 0; step < 3; ++step) {
        accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
        for (int rank = 0; rank < group.size(); ++rank) {
          net_loss(plain, batch_of(rank, step)).div(group.size()).backward();
        }
        const auto& grad = net->first->weight.grad();
        EXPECT_EQ(grad.scalar_type(), at::kFloat);
        // Allows half a unit in the last of 8 or 11 bits, once when the
        // gradient is sent and once at the end.
        const double bits = hook == CommHook::bf16 ? 8e-3 : 1e-3;
        EXPECT_TRUE(
            at::allclose(grad, plain->first->weight.grad(), bits, bits * 0.1));
        expect_equal_on_all_ranks(group, grad);
        net->zero_grad();
        plain->zero_grad();
      }
    });
  }
}

TEST_P(TrainingCases, BuffersAreBroadcastFromRankZeroIfAsked) {
  for (const bool broadcast : {true, false}) {
    each([broadcast](Group& group) {
      torch::nn::BatchNorm1d norm(3);
      Accelerator accelerator(
          PartialState(group),
          {.ddp_kwargs = {.broadcast_buffers = broadcast}});
      accelerator.prepare(norm);

      accelerator.backward(
          norm(at::arange(6, at::kFloat).view({2, 3}).add(group.rank()))
              .pow(2)
              .sum());

      const auto means = group.gather({norm->running_mean.view({1, -1})})[0];
      for (int r = 1; r < group.size(); ++r) {
        EXPECT_EQ(at::equal(means[r], means[0]), broadcast);
      }
    });
  }
}

TEST_P(TrainingCases, OneModelStaysLocalInItsNoSync) {
  each([](Group& group) {
    Net a = make_net(1);
    Net b = make_net(2);
    Net alone = make_net(1);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(a, b);
    const auto rows = batch_of(group.rank(), 0);
    net_loss(alone, rows).backward();
    {
      const auto local = accelerator.no_sync(a);
      accelerator.backward(net_loss(a, rows).add(net_loss(b, rows)));
    }
    EXPECT_TRUE(
        at::allclose(a->first->weight.grad(), alone->first->weight.grad()));
    expect_equal_on_all_ranks(group, b->first->weight.grad());

    accelerator.backward(net_loss(a, rows));
    expect_equal_on_all_ranks(group, a->first->weight.grad());
    EXPECT_EQ(
        message_of<StateError>(
            [&] { static_cast<void>(accelerator.no_sync(alone)); }),
        "no_sync got a model that was not prepared");
  });
}

}  // namespace
}  // namespace accelerate
