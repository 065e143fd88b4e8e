// SPDX-License-Identifier: Apache-2.0
// Runs that stop, are loaded again, and must not differ from one that did not.
#include <filesystem>
#include <mutex>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "accelerate/tensor_map.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr int kSamples = 22;
constexpr int kMicroSteps = 20;

struct Numbers {
  std::size_t size() const { return kSamples; }
  TensorMap get(std::size_t index) const {
    const auto x = at::arange(6, at::kFloat)
                       .add(static_cast<double>(index))
                       .mul(0.37)
                       .sin();
    return {
        {"x", x},
        {"id", at::full({}, static_cast<std::int64_t>(index), at::kLong)}};
  }
};

enum class Method { adamw, momentum, libtorch_adam };

std::unique_ptr<torch::optim::Optimizer> make_method(
    Method method, const std::vector<at::Tensor>& parameters) {
  switch (method) {
    case Method::adamw:
      return std::make_unique<AdamW>(parameters, 0.01);
    case Method::momentum:
      return std::make_unique<SGD>(
          parameters, SGDOptions{.lr = 0.05, .momentum = 0.9});
    case Method::libtorch_adam:
      return std::make_unique<torch::optim::Adam>(parameters, 0.01);
  }
  return nullptr;
}

/// Everything of one rank of a run.
class TrainingRun {
 public:
  TrainingRun(const Group& group, Method method, int accumulation, int seed = 3)
      : accelerator(
            PartialState(group), {.gradient_accumulation_steps = accumulation}),
        net(make_net(seed)),
        optimizer(make_method(method, net->parameters())),
        scheduler(*optimizer, {.step_size = 4, .gamma = 0.7}),
        loader(Numbers{}, {.batch_size = 2, .shuffle = true, .seed = 11}) {
    accelerator.prepare(net, *optimizer, scheduler, loader);
    accelerator.register_for_checkpointing(*this);
  }

  /// Trains to the given micro-step; `at` is called after each.
  void train(int until, const std::function<void(int)>& at = {}) {
    while (micro_ < until) {
      for (auto& batch : loader) {
        auto region = accelerator.accumulate();
        accelerator.backward(net->forward(batch["x"]).pow(2).mean());
        optimizer->step();
        scheduler.step();
        optimizer->zero_grad();
        note(batch["id"]);
        ++micro_;
        if (at) {
          at(micro_);
        }
        if (micro_ == until) {
          return;
        }
      }
    }
  }

  Json state_dict() const { return Json(micro_); }
  void load_state_dict(const Json& state) {
    micro_ = static_cast<int>(state.as_integer());
  }

  /// Parameters and learning rate, for comparison bit for bit.
  std::vector<at::Tensor> result() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : net->parameters()) {
      all.push_back(parameter.detach().clone());
    }
    all.push_back(at::full({1}, scheduler.get_last_lr()[0], at::kDouble));
    return all;
  }

  Accelerator accelerator;
  torch::nn::Sequential net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  StepLR scheduler;
  DataLoader<Numbers> loader;
  std::vector<std::int64_t> seen;  ///< real samples of this rank, in order

 private:
  static torch::nn::Sequential make_net(int seed) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    torch::manual_seed(seed);
    return torch::nn::Sequential(
        torch::nn::Linear(6, 7),
        torch::nn::BatchNorm1d(7),
        torch::nn::Linear(7, 2));
  }

  void note(const at::Tensor& ids) {
    for (std::int64_t i = 0; i < loader.valid_rows(); ++i) {
      seen.push_back(ids[i].item<std::int64_t>());
    }
  }

  int micro_ = 0;
};

void expect_equal(
    const std::vector<at::Tensor>& ours,
    const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i], theirs[i])) << "tensor " << i;
  }
}

using ResumeCase = std::tuple<int, Method, int>;
class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, AtEveryStepEqualsTheRunThatDidNotStop) {
  const int size = std::get<0>(GetParam());
  const Method method = std::get<1>(GetParam());
  const int accumulation = std::get<2>(GetParam());
  const TemporaryFolder folder;
  std::vector<std::vector<at::Tensor>> expected(static_cast<std::size_t>(size));
  run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, method, accumulation);
    run.train(kMicroSteps, [&](int micro) {
      run.accelerator.save_state(
          folder.path() / ("at_" + std::to_string(micro)),
          {.blocking = micro % 2 == 0});
    });
    run.accelerator.wait_for_checkpoint();
    expected[static_cast<std::size_t>(group.rank())] = run.result();
  });

  for (int stop = 1; stop < kMicroSteps; ++stop) {
    SCOPED_TRACE(stop);
    run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
      TrainingRun run(group, method, accumulation, /*seed=*/99);
      run.accelerator.load_state(
          folder.path() / ("at_" + std::to_string(stop)));
      run.train(kMicroSteps);
      expect_equal(
          run.result(), expected[static_cast<std::size_t>(group.rank())]);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    Resume,
    testing::Combine(
        testing::Values(1, 2, 3),
        testing::Values(Method::adamw, Method::momentum, Method::libtorch_adam),
        testing::Values(1, 3)));

class OtherSize : public testing::TestWithParam<std::tuple<int, int>> {};

// Five global steps at P, the rest of the epoch at another P: each sample once.
TEST_P(OtherSize, ContinuesWithTheNextSample) {
  const int before = std::get<0>(GetParam());
  const int after = std::get<1>(GetParam());
  const TemporaryFolder folder;
  std::mutex mutex;
  std::multiset<std::int64_t> seen;
  const auto keep = [&](const TrainingRun& run) {
    const std::lock_guard lock(mutex);
    seen.insert(run.seen.begin(), run.seen.end());
  };
  std::vector<at::Tensor> saved;
  run_on_ranks(before, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, Method::adamw, /*accumulation=*/3);
    run.train(2);
    run.accelerator.save_state(folder.path() / "c");
    keep(run);
    if (group.rank() == 0) {
      saved = run.result();
    }
  });
  run_on_ranks(after, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, Method::adamw, /*accumulation=*/3, /*seed=*/99);
    const auto report = run.accelerator.load_state(folder.path() / "c");
    EXPECT_EQ(report.world_size, before);
    expect_equal(run.result(), saved);
    for (auto& batch : run.loader) {
      for (std::int64_t i = 0; i < run.loader.valid_rows(); ++i) {
        run.seen.push_back(batch["id"][i].item<std::int64_t>());
      }
    }
    keep(run);
  });

  std::vector<std::int64_t> everything(kSamples);
  std::iota(everything.begin(), everything.end(), 0);
  EXPECT_THAT(seen, testing::ElementsAreArray(everything));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    OtherSize,
    testing::Combine(testing::Values(1, 2, 3, 4), testing::Values(1, 2, 3, 4)));

// At another number of processes the partial sums become their mean, so the
// update that follows is the one of all their rows.
TEST(OtherSizes, FinishAnAccumulationThatOthersBegan) {
  const TemporaryFolder folder;
  const auto step = [](TrainingRun& run, double x) {
    auto region = run.accelerator.accumulate();
    run.accelerator.backward(
        run.net->forward(at::ones({4, 6}).mul(x).add(at::arange(6))).sum());
    run.optimizer->step();
    run.optimizer->zero_grad();
  };
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, Method::momentum, 2);
    step(run, group.rank());
    run.accelerator.save_state(folder.path() / "c");
  });

  std::vector<at::Tensor> alone;
  for (const int size : {1, 2}) {
    run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
      TrainingRun run(group, Method::momentum, 2, 99);
      run.accelerator.load_state(folder.path() / "c");
      EXPECT_FALSE(run.accelerator.sync_gradients());
      step(run, 1);
      EXPECT_TRUE(run.accelerator.sync_gradients());
      if (size == 1) {
        alone = run.result();
      } else {
        const auto together = run.result();
        for (std::size_t i = 0; i < alone.size(); ++i) {
          EXPECT_TRUE(at::allclose(alone[i], together[i], 1e-6, 1e-7)) << i;
        }
      }
    });
  }
}

}  // namespace
}  // namespace accelerate
