// SPDX-License-Identifier: Apache-2.0
// Batch norm over the rows of all ranks, compared with one process that has all
// rows.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/error.h"
#include "device/interception.h"
#include "parallel/local_gradients.h"
#include "parallel/strategy.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

/// Two batch norms; the first is used twice.
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    first = register_module("first", torch::nn::Linear(4, 6));
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    second = register_module("second", torch::nn::Linear(6, 6));
    last_norm = register_module(
        "last_norm",
        torch::nn::BatchNorm1d(
            torch::nn::BatchNorm1dOptions(6).momentum(std::nullopt)));
    last = register_module("last", torch::nn::Linear(6, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::tanh(norm(first(x)));
    return last(torch::tanh(last_norm(torch::tanh(norm(second(hidden))))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr}, last_norm{nullptr};
};
TORCH_MODULE(Normed);

/// Images, and batch norms without weights or without running statistics.
struct ImagesImpl : torch::nn::Module {
  ImagesImpl() {
    conv = register_module("conv", torch::nn::Conv2d(1, 3, 3));
    plain = register_module(
        "plain",
        torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).affine(false)));
    second = register_module("second", torch::nn::Conv2d(3, 2, 2));
    untracked = register_module(
        "untracked",
        torch::nn::BatchNorm2d(
            torch::nn::BatchNorm2dOptions(2).track_running_stats(false)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor images = x.view({x.size(0), 1, 2, 2});
    const at::Tensor larger = at::constant_pad_nd(images, {1, 2, 2, 1}, 0.5);
    const at::Tensor hidden = torch::relu(plain(conv(larger)));
    return torch::tanh(untracked(second(hidden))).mul(mix).sum({1, 2, 3});
  }
  torch::nn::Conv2d conv{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d plain{nullptr}, untracked{nullptr};
  // Otherwise the sum of the normalized values would not depend on the rows.
  at::Tensor mix = at::arange(8, at::kDouble).sin().view({2, 2, 2});
};
TORCH_MODULE(Images);

// Ranks are threads that share the random number generator of the process.
template <typename Model>
Model make_model() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(5);
  Model model;
  model->to(at::kDouble);
  return model;
}

// Returns rows that differ between ranks and have very different means.
at::Tensor rows_of(std::int64_t rank, int step, std::int64_t count) {
  return at::arange(count * 4, at::kDouble)
      .view({count, 4})
      .mul(0.7)
      .add(11.3 * static_cast<double>(rank) + 3.1 * step)
      .sin()
      .add(2.0 * static_cast<double>(rank));
}

/// The number of rows on each rank.
using Counts = std::vector<std::int64_t>;

at::Tensor all_rows(const Counts& counts, int step) {
  std::vector<at::Tensor> rows;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    rows.push_back(
        rows_of(static_cast<std::int64_t>(rank), step, counts[rank]));
  }
  return at::cat(rows);
}

std::int64_t total(const Counts& counts) {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    sum += count;
  }
  return sum;
}

// The mean over ranks of this loss is the mean over all rows.
template <typename Model>
at::Tensor loss_of(
    Model& model, const Counts& counts, std::int64_t rank, int step) {
  const auto size = static_cast<double>(counts.size());
  return model(rows_of(rank, step, counts[static_cast<std::size_t>(rank)]))
      .square()
      .sum()
      .mul(size / static_cast<double>(total(counts)));
}

constexpr int kSteps = 3;

template <typename Model>
Model train_in_one_process(const Counts& counts) {
  Model model = make_model<Model>();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    model(all_rows(counts, step)).square().mean().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return model;
}

void expect_equal(const torch::nn::Module& model, const torch::nn::Module& to) {
  const auto compare = [](const auto& ours, const auto& expected) {
    for (const auto& item : ours) {
      const at::Tensor difference =
          item.value().sub(expected[item.key()]).abs().max();
      EXPECT_LT(difference.template item<double>(), 1e-9) << item.key();
    }
  };
  const at::NoGradGuard guard;
  compare(model.named_parameters(), to.named_parameters());
  compare(model.named_buffers(), to.named_buffers());
}

struct Case {
  std::string name;
  Backend backend;
  Counts counts;
};

class SyncedBatchNorm : public testing::TestWithParam<Case> {
 protected:
  template <typename Model>
  static void expect_training_as_in_one_process() {
    const Counts& counts = GetParam().counts;
    Model alone = train_in_one_process<Model>(counts);
    run_on_ranks(
        static_cast<int>(counts.size()),
        quick(GetParam().backend),
        [&](Group& group) {
          Accelerator accelerator{PartialState(group), {}};
          Model model = make_model<Model>();
          torch::optim::SGD optimizer(model->parameters(), 0.1);
          accelerator.convert_sync_batchnorm(model);
          accelerator.prepare(model, optimizer);
          for (int step = 0; step < kSteps; ++step) {
            accelerator.backward(loss_of(model, counts, group.rank(), step));
            optimizer.step();
            optimizer.zero_grad();
          }
          expect_equal(*model, *alone);
        });
  }
};

TEST_P(SyncedBatchNorm, TrainsAsOneProcess) {
  expect_training_as_in_one_process<Normed>();
}

TEST_P(SyncedBatchNorm, TrainsImagesAsOneProcess) {
  expect_training_as_in_one_process<Images>();
}

INSTANTIATE_TEST_SUITE_P(
    Ranks,
    SyncedBatchNorm,
    testing::Values(
        Case{"Two", Backend::shm, {4, 4}},
        Case{"Uneven", Backend::shm, {2, 5}},
        Case{"WithoutRows", Backend::shm, {6, 0}},
        Case{"Three", Backend::shm, {3, 2, 4}},
        Case{"Gloo", Backend::gloo, {2, 5}}),
    [](const auto& test) { return test.param.name; });

/// Runs `body` on two ranks, each with a converted and prepared model.
template <typename Model = Normed>
void on_two_ranks(
    const std::function<void(Accelerator&, Model&)>& body,
    const AcceleratorOptions& options = {}) {
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator{PartialState(group), options};
    Model model = make_model<Model>();
    accelerator.prepare(model);
    accelerator.convert_sync_batchnorm(model);
    body(accelerator, model);
  });
}

const Counts kCounts = {4, 4};

template <typename Model>
at::Tensor own_loss(Accelerator& accelerator, Model& model, int step = 0) {
  return loss_of(model, kCounts, accelerator.process_index(), step);
}

// Checks that the other tests can fail: without conversion, the results differ.
TEST(BatchNorm, HasItsOwnStatisticsOnEachRankUnlessConverted) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    Normed model = make_model<Normed>();
    accelerator.prepare(model);
    const at::Tensor output = model(rows_of(group.rank(), 0, 4));
    Normed alone = make_model<Normed>();
    const at::Tensor expected =
        alone(all_rows(kCounts, 0)).narrow(0, 4 * group.rank(), 4);
    EXPECT_GT(output.sub(expected).abs().max().item<double>(), 1e-3);
  });
}

// The tensors are marked, and `to` replaces their data.
TEST(SyncBatchNorm, SurvivesAChangeOfType) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    Normed model = make_model<Normed>();
    accelerator.convert_sync_batchnorm(model);
    model->to(at::kFloat);
    accelerator.prepare(model);
    const at::Tensor output = model(rows_of(group.rank(), 0, 4).to(at::kFloat));
    Normed alone = make_model<Normed>();
    const at::Tensor expected =
        alone(all_rows(kCounts, 0)).narrow(0, 4 * group.rank(), 4);
    EXPECT_LT(output.sub(expected).abs().max().item<double>(), 1e-5);
  });
}

TEST(SyncBatchNorm, ComputesInFp32ForBf16) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    torch::nn::BatchNorm1d norm(4);
    accelerator.convert_sync_batchnorm(norm);
    const at::Tensor rows =
        rows_of(group.rank(), 0, 4).to(at::kBFloat16).requires_grad_();
    const at::Tensor output = norm(rows);
    accelerator.backward(output.square().sum());
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    EXPECT_EQ(rows.grad().scalar_type(), at::kBFloat16);

    torch::nn::BatchNorm1d alone(4);
    const at::Tensor expected =
        alone(all_rows(kCounts, 0).to(at::kBFloat16).to(at::kFloat))
            .narrow(0, 4 * group.rank(), 4);
    EXPECT_TRUE(at::equal(output, expected.to(at::kBFloat16)));
    EXPECT_TRUE(norm->running_var.allclose(alone->running_var));
  });
}

// Sums of squares would lose all digits: fp32 has a spacing of 2 there.
TEST(SyncBatchNorm, IsExactForALargeMean) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    torch::nn::BatchNorm1d norm(4);
    accelerator.convert_sync_batchnorm(norm);
    const at::Tensor rows =
        rows_of(group.rank(), 0, 4).add(4096).to(at::kFloat);
    norm(rows);

    torch::nn::BatchNorm1d alone(4);
    alone->to(at::kDouble);
    alone(all_rows(kCounts, 0).add(4096).to(at::kFloat).to(at::kDouble));
    EXPECT_LT(
        norm->running_var.sub(alone->running_var).abs().max().item<double>(),
        1e-4);
  });
}

TEST(SyncBatchNorm, WorksWithGradientAccumulation) {
  Normed alone = make_model<Normed>();
  torch::optim::SGD reference(alone->parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    alone(all_rows(kCounts, step)).square().mean().div(2).backward();
    if (step % 2 == 1) {
      reference.step();
      reference.zero_grad();
    }
  }
  on_two_ranks<Normed>(
      [&](Accelerator& accelerator, Normed& model) {
        torch::optim::SGD optimizer(model->parameters(), 0.1);
        accelerator.prepare(optimizer);
        for (int step = 0; step < 4; ++step) {
          const Region micro_step = accelerator.accumulate();
          accelerator.backward(own_loss(accelerator, model, step));
          optimizer.step();
          optimizer.zero_grad();
        }
        expect_equal(*model, *alone);
      },
      {.gradient_accumulation_steps = 2});
}

TEST(SyncBatchNorm, SynchronizesInsideNoSync) {
  Normed alone = make_model<Normed>();
  for (int step = 0; step < 2; ++step) {
    alone(all_rows(kCounts, step)).square().mean().backward();
  }
  on_two_ranks<Normed>([&](Accelerator& accelerator, Normed& model) {
    {
      const Region region = accelerator.no_sync();
      accelerator.backward(own_loss(accelerator, model, 0));
    }
    accelerator.backward(own_loss(accelerator, model, 1));
    for (const auto& item : model->named_parameters()) {
      EXPECT_LT(
          item.value()
              .grad()
              .sub(alone->named_parameters()[item.key()].grad())
              .abs()
              .max()
              .item<double>(),
          1e-9)
          << item.key();
    }
  });
}

TEST(SyncBatchNorm, EvaluatesWithoutTheOtherRanks) {
  const auto evaluate_on_rank_0 = [](Accelerator& accelerator, auto& model) {
    accelerator.backward(own_loss(accelerator, model));
    model->eval();
    if (accelerator.is_main_process()) {
      model(rows_of(0, 1, 3));
    }
    accelerator.wait_for_everyone();
    model->train();
    accelerator.backward(own_loss(accelerator, model));
  };
  on_two_ranks<Normed>(evaluate_on_rank_0);
  on_two_ranks<Images>(evaluate_on_rank_0);
}

/// Throws in the backward pass.
struct Thrower : torch::autograd::Function<Thrower> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      const torch::autograd::variable_list& /*gradients*/) {
    throw std::runtime_error("planted");
  }
};

enum class Where { first, last };

// The other ranks wait in a batch norm, or have finished their backward pass.
void expect_failure_on_all_ranks(Where where, bool sync) {
  on_two_ranks<Normed>([&](Accelerator& accelerator, Normed& model) {
    for (int time = 0; time < 2; ++time) {
      const bool fails = accelerator.process_index() == 1;
      at::Tensor rows = rows_of(accelerator.process_index(), 0, 4);
      if (fails && where == Where::last) {
        rows = Thrower::apply(rows.requires_grad_());
      }
      at::Tensor output = model(rows);
      if (fails && where == Where::first) {
        output = Thrower::apply(output);
      }
      std::optional<Region> region;
      if (!sync) {
        region.emplace(accelerator.no_sync());
      }
      if (fails) {
        EXPECT_EQ(
            message_of<std::runtime_error>(
                [&] { accelerator.backward(output.sum()); }),
            "planted");
      } else {
        EXPECT_THAT(
            message_of<RankError>([&] { accelerator.backward(output.sum()); }),
            HasSubstr("backward failed on another rank"));
      }
      for (const at::Tensor& parameter : model->parameters()) {
        EXPECT_FALSE(parameter.grad().defined());
      }
    }
    accelerator.backward(own_loss(accelerator, model));
    EXPECT_TRUE(model->first->weight.grad().defined());
  });
}

TEST(SyncBatchNorm, AFailureBeforeItReachesRanksThatWait) {
  expect_failure_on_all_ranks(Where::first, /*sync=*/true);
  expect_failure_on_all_ranks(Where::first, /*sync=*/false);
}

TEST(SyncBatchNorm, AFailureAfterItReachesRanksThatAreDone) {
  expect_failure_on_all_ranks(Where::last, /*sync=*/true);
  expect_failure_on_all_ranks(Where::last, /*sync=*/false);
}

// Hooks start buckets at different times on different ranks, which would
// reorder the collectives.
TEST(SyncBatchNorm, GradientsAreNotReducedDuringTheBackwardPass) {
  struct Path : LocalGradients {
    using LocalGradients::LocalGradients;
    void begin(Sync sync, bool overlap) override {
      overlaps = overlap;
      LocalGradients::begin(sync, overlap);
    }
    bool overlaps = true;
  };
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    const auto strategy = make_strategy(group, BucketOptions{});
    Path path{NamedTensors{}};
    const auto run_backward = [&] {
      strategy->begin_backward({{&path, Sync::visible}});
      strategy->end_backward();
    };

    run_backward();
    EXPECT_TRUE(path.overlaps);
    ASSERT_NE(strategy->operator_collectives(), nullptr);
    run_backward();
    EXPECT_FALSE(path.overlaps);
  });
}

TEST(SyncBatchNorm, RefusesRanksInDifferentBatchNorms) {
  on_two_ranks<Normed>([](Accelerator& accelerator, Normed& model) {
    const at::Tensor rows = at::ones({4, 6}, at::kDouble);
    const std::string message = message_of<MismatchError>([&] {
      accelerator.is_main_process() ? model->norm(rows)
                                    : model->last_norm(rows);
    });
    EXPECT_THAT(message, HasSubstr("batch norm `norm` of 6 channels"));
    EXPECT_THAT(message, HasSubstr("batch norm `last_norm` of 6 channels"));
    accelerator.backward(own_loss(accelerator, model));
  });
}

TEST(SyncBatchNorm, RefusesRanksThatDoSomethingElse) {
  on_two_ranks<Normed>([](Accelerator& accelerator, Normed& model) {
    EXPECT_THAT(
        message_of<MismatchError>([&] {
          accelerator.is_main_process() ? model(rows_of(0, 0, 4))
                                        : accelerator.gather(at::ones({1}));
        }),
        HasSubstr("gather"));
    // One rank is still in its forward pass.
    at::Tensor loss = own_loss(accelerator, model);
    EXPECT_THROW(
        accelerator.is_main_process()
            ? accelerator.backward(loss)
            : static_cast<void>(model(rows_of(1, 0, 4))),
        MismatchError);
    accelerator.backward(own_loss(accelerator, model));
  });
}

/// A batch norm that does not call `aten::batch_norm`.
struct OwnFormulaImpl : torch::nn::Module {
  OwnFormulaImpl() {
    linear = register_module("linear", torch::nn::Linear(4, 6));
    weight = register_parameter("weight", at::ones({6}, at::kDouble));
    running_mean = register_buffer("running_mean", at::zeros({6}, at::kDouble));
    running_var = register_buffer("running_var", at::ones({6}, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = linear(x);
    return hidden.sub(hidden.mean(0)).mul(weight);
  }
  torch::nn::Linear linear{nullptr};
  at::Tensor weight, running_mean, running_var;
};
TORCH_MODULE(OwnFormula);

TEST(SyncBatchNorm, ThatWasNeverReachedIsAnError) {
  on_two_ranks<OwnFormula>([](Accelerator& accelerator, OwnFormula& model) {
    EXPECT_THAT(
        message_of<StateError>(
            [&] { accelerator.backward(own_loss(accelerator, model)); }),
        testing::ContainsRegex(
            "`convert_sync_batchnorm` had no effect on `.*OwnFormulaImpl`"));
  });
}

TEST(SyncBatchNorm, ThatWasNeverReachedIsAnErrorWithOneProcess) {
  Accelerator accelerator{PartialState(Group()), {}};
  OwnFormula model = make_model<OwnFormula>();
  accelerator.convert_sync_batchnorm(model);
  accelerator.prepare(model);
  EXPECT_THROW(accelerator.backward(model(rows_of(0, 0, 4)).sum()), StateError);
}

/// A model that does not always use its second batch norm.
struct BranchImpl : torch::nn::Module {
  BranchImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    other = register_module(
        "other",
        torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).affine(false)));
  }
  at::Tensor forward(const at::Tensor& x) {
    return use_other ? other(norm(x)) : norm(x);
  }
  bool use_other = false;
  torch::nn::BatchNorm1d norm{nullptr}, other{nullptr};
};
TORCH_MODULE(Branch);

TEST(SyncBatchNorm, ThatIsNotUsedYetIsNoError) {
  on_two_ranks<Branch>([](Accelerator& accelerator, Branch& model) {
    accelerator.backward(own_loss(accelerator, model));
    model->use_other = true;
    accelerator.backward(own_loss(accelerator, model));
  });
}

TEST(SyncBatchNorm, NeedsATensorToMark) {
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Sequential model(torch::nn::BatchNorm1d(
      torch::nn::BatchNorm1dOptions(3).affine(false).track_running_stats(
          false)));
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { accelerator.convert_sync_batchnorm(model); }),
      "`convert_sync_batchnorm` cannot synchronize `0`: it has neither a "
      "weight nor running statistics");
}

TEST(SyncBatchNorm, LeavesOtherNormsAlone) {
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::InstanceNorm1d instance(
      torch::nn::InstanceNorm1dOptions(3).affine(true).track_running_stats(
          true));
  accelerator.convert_sync_batchnorm(instance);
  EXPECT_EQ(interceptor_of(instance->running_mean), nullptr);
}

TEST(SyncBatchNorm, RefusesUnevenInputs) {
  on_two_ranks<Normed>([](Accelerator& accelerator, Normed& /*model*/) {
    EXPECT_THAT(
        message_of<UnsupportedError>(
            [&] { (void)accelerator.join_uneven_inputs(); }),
        HasSubstr("does not work with synchronized batch norm"));
  });
}

TEST(SyncBatchNorm, RefusesSecondDerivatives) {
  on_two_ranks<Normed>([](Accelerator& accelerator, Normed& model) {
    const at::Tensor rows =
        rows_of(accelerator.process_index(), 0, 4).requires_grad_();
    EXPECT_THAT(
        message_of<std::runtime_error>([&] {
          torch::autograd::grad(
              {model(rows).sum()}, {rows}, {}, std::nullopt, true);
        }),
        HasSubstr("does not support second derivatives"));
  });
}

TEST(SyncBatchNorm, ConvertingTwiceChangesNothing) {
  on_two_ranks<Normed>([](Accelerator& accelerator, Normed& model) {
    const Interceptor* const before = interceptor_of(model->norm->running_mean);
    accelerator.convert_sync_batchnorm(model);
    EXPECT_EQ(interceptor_of(model->norm->running_mean), before);
    accelerator.backward(own_loss(accelerator, model));
  });
}

TEST(SyncBatchNorm, OutlivesItsAccelerator) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Normed model = make_model<Normed>();
    {
      Accelerator accelerator{PartialState(group), {}};
      accelerator.convert_sync_batchnorm(model);
    }
    model(rows_of(group.rank(), 0, 4)).sum().backward();
    const at::Tensor mean = model->norm->running_mean;
    EXPECT_TRUE(group.reduce({mean}, Reduction::mean)[0].equal(mean));
  });
}

}  // namespace
}  // namespace accelerate
