// SPDX-License-Identifier: Apache-2.0
// Runs that stop and resume must give the same results as a run that does not
// stop.
#include <filesystem>
#include <mutex>
#include <optional>

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
#include "accelerate/optimizer_state.h"
#include "accelerate/safetensors.h"
#include "accelerate/tensor_map.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr int kMicroSteps = 20;

struct Numbers {
  std::size_t count = 22;

  std::size_t size() const { return count; }
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

/// The whole state of one rank of a run.
class TrainingRun {
 public:
  TrainingRun(
      const Group& group,
      Method method,
      int accumulation,
      int seed = 3,
      const Numbers& data = {})
      : accelerator(
            PartialState(group), {.gradient_accumulation_steps = accumulation}),
        net(make_net(seed)),
        optimizer(make_method(method, net->parameters())),
        scheduler(*optimizer, {.step_size = 4, .gamma = 0.7}),
        loader(data, {.batch_size = 2, .shuffle = true, .seed = 11}) {
    accelerator.prepare(net, *optimizer, scheduler, loader);
    accelerator.register_for_checkpointing(*this);
  }

  /// Trains up to the given micro-step; calls `at` after each.
  void train(int until, const std::function<void(int)>& at = {}) {
    while (micro_ < until) {
      for (auto& batch : loader) {
        auto region = accelerator.accumulate();
        const at::Tensor loss = net->forward(batch["x"]).pow(2).mean();
        losses.push_back(loss.item<float>());
        accelerator.backward(loss);
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

  /// Parameters, buffers and learning rate, for a bitwise comparison.
  std::vector<at::Tensor> result() const {
    std::vector<at::Tensor> all;
    for (const auto& tensors : {net->parameters(), net->buffers()}) {
      for (const at::Tensor& tensor : tensors) {
        all.push_back(tensor.detach().clone());
      }
    }
    all.push_back(at::full({1}, scheduler.get_last_lr()[0], at::kDouble));
    return all;
  }

  Accelerator accelerator;
  torch::nn::Sequential net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  StepLR scheduler;
  DataLoader<Numbers> loader;
  /// The real samples of this rank in each step, and their losses.
  std::vector<std::vector<std::int64_t>> seen;
  std::vector<float> losses;

  static torch::nn::Sequential make_net(int seed) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    torch::manual_seed(seed);
    return torch::nn::Sequential(
        torch::nn::Linear(6, 7),
        torch::nn::BatchNorm1d(7),
        torch::nn::Linear(7, 2));
  }

 private:
  void note(const at::Tensor& ids) {
    seen.emplace_back();
    for (std::int64_t i = 0; i < loader.valid_rows(); ++i) {
      seen.back().push_back(ids[i].item<std::int64_t>());
    }
  }

  int micro_ = 0;
};

void expect_equal(
    const std::vector<at::Tensor>& actual,
    const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i], expected[i])) << "tensor " << i;
  }
}

using ResumeCase = std::tuple<int, Method, int>;
class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, AtEveryStepEqualsAnUninterruptedRun) {
  const int size = std::get<0>(GetParam());
  const Method method = std::get<1>(GetParam());
  const int accumulation = std::get<2>(GetParam());
  const TemporaryDirectory folder;
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

TEST(Resume, KeepsTheBuffersOfEachRankWhenTheyAreNotSynchronised) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator(
        PartialState(group), {.ddp_kwargs = {.broadcast_buffers = false}});
    torch::nn::BatchNorm1d net(3);
    accelerator.prepare(net);
    const at::Tensor rows = at::arange(6, at::kFloat).view({2, 3});
    accelerator.backward(net(rows.add(group.rank())).sum());
    const at::Tensor mean = net->running_mean.clone();
    for (const bool blocking : {true, false}) {
      accelerator.save_state(folder.path() / "c", {.blocking = blocking});
      net->running_mean.zero_();
      accelerator.load_state(folder.path() / "c");
      EXPECT_TRUE(at::equal(net->running_mean, mean)) << group.rank();
    }
  });
}

/// The samples and losses of several ranks.
class RankResults {
 public:
  explicit RankResults(int size) : ranks_(static_cast<std::size_t>(size)) {}

  void add(const Group& group, const TrainingRun& run) {
    const std::lock_guard lock(mutex_);
    ranks_[static_cast<std::size_t>(group.rank())] = run.seen;
  }

  /// Ordered by global step, then by rank.
  std::vector<std::int64_t> in_order() const {
    std::vector<std::int64_t> all;
    for (std::size_t step = 0; step < ranks_[0].size(); ++step) {
      for (const auto& rank : ranks_) {
        all.insert(all.end(), rank[step].begin(), rank[step].end());
      }
    }
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::vector<std::int64_t>>> ranks_;
};

/// A state that is transferred in memory. Only the state of each rank in the
/// middle of gradient accumulation comes from a checkpoint.
struct TransferredState {
  explicit TransferredState(TrainingRun& run)
      : optimizer(optimizer_state(*run.optimizer)),
        scheduler(run.scheduler.state_dict()),
        loader(run.loader.state_dict()),
        micro(run.state_dict()) {
    for (const auto& [name, tensor] : Accelerator::get_state_dict(run.net)) {
      weights[name] = tensor.detach().clone();
    }
    for (auto& [name, tensor] : optimizer.tensors) {
      tensor = tensor.clone();
    }
  }

  void read_rank_states(const fs::path& checkpoint, const int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto file = "rank-0000" + std::to_string(rank) + ".safetensors";
      rank_states.push_back(load_safetensors(checkpoint / file));
    }
  }

  bool has_sums() const {
    return rank_states[0].contains("gradient.0.0.weight");
  }

  /// With the same number of ranks, each rank continues with its own sum.
  at::Tensor of_rank(const Group& group, const std::string& name) const {
    if (static_cast<std::size_t>(group.size()) == rank_states.size()) {
      return rank_states[static_cast<std::size_t>(group.rank())]
          .at(name)
          .clone();
    }
    at::Tensor sum = rank_states[0].at(name).clone();
    for (std::size_t rank = 1; rank < rank_states.size(); ++rank) {
      sum = sum.add(rank_states[rank].at(name));
    }
    return sum.div(static_cast<std::int64_t>(rank_states.size()));
  }

  void apply_to(const Group& group, TrainingRun& run) const {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : Accelerator::get_state_dict(run.net)) {
      tensor.copy_(weights.at(name));
    }
    load_optimizer_state(*run.optimizer, optimizer);
    run.scheduler.load_state_dict(scheduler);
    run.loader.load_state_dict(loader);
    run.load_state_dict(micro);
    if (!has_sums()) {
      return;
    }
    // The micro-step of these gradients.
    const auto region = run.accelerator.accumulate();
    for (auto& item : run.net->named_parameters()) {
      item.value().mutable_grad() = of_rank(group, "gradient.0." + item.key());
    }
    if (static_cast<std::size_t>(group.size()) == rank_states.size() &&
        rank_states.size() > 1) {
      for (auto& item : run.net->named_buffers()) {
        item.value().copy_(of_rank(group, "buffer.0." + item.key()));
      }
    }
  }

  std::vector<TensorMap> rank_states;
  TensorMap weights;
  OptimizerState optimizer;
  Json scheduler;
  Json loader;
  Json micro;
};

constexpr Numbers kMany{46};

std::vector<std::int64_t> order_of_an_epoch() {
  TrainingRun alone(Group(), Method::adamw, 1, 3, kMany);
  alone.train(23);
  RankResults results(1);
  results.add(Group(), alone);
  return results.in_order();
}

using OtherSizeCase = std::tuple<int, int, Method, int>;
class OtherWorldSize : public testing::TestWithParam<OtherSizeCase> {};

// Trains for four micro-steps, and for the rest of the epoch with a different
// number of ranks. The samples come in the same order as in one process, and
// every loss and weight equals the value in a run whose state was transferred
// in memory. With three micro-steps per update, the transferred state includes
// the first micro-step of the second group.
TEST_P(OtherWorldSize, ContinuesWithTheNextSampleAndTheSameState) {
  const auto [before, after, method, accumulation] = GetParam();
  const int stop = 4;
  const int end = stop + (46 - 2 * stop * before + 2 * after - 1) / (2 * after);
  const TemporaryDirectory folder;
  RankResults first(before);
  RankResults second(after);
  std::optional<TransferredState> state;
  run_on_ranks(before, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, method, accumulation, 3, kMany);
    run.train(stop);
    run.accelerator.save_state(folder.path() / "c");
    first.add(group, run);
    if (group.rank() == 0) {
      state.emplace(run);
    }
  });
  state->read_rank_states(folder.path() / "c", before);
  EXPECT_EQ(state->has_sums(), accumulation == 3);
  run_on_ranks(after, quick(Backend::shm), [&](Group& group) {
    TrainingRun loaded(group, method, accumulation, /*seed=*/99, kMany);
    const auto report = loaded.accelerator.load_state(folder.path() / "c");
    EXPECT_EQ(report.world_size, before);
    EXPECT_EQ(report.derived.empty(), group.rank() < before);
    loaded.train(end);
    second.add(group, loaded);

    TrainingRun transferred(group, method, accumulation, /*seed=*/98, kMany);
    state->apply_to(group, transferred);
    transferred.train(end);
    EXPECT_EQ(loaded.losses, transferred.losses);
    expect_equal(loaded.result(), transferred.result());
  });

  std::vector<std::int64_t> seen = first.in_order();
  const std::vector<std::int64_t> rest = second.in_order();
  seen.insert(seen.end(), rest.begin(), rest.end());
  EXPECT_EQ(seen, order_of_an_epoch());
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    OtherWorldSize,
    testing::Combine(
        testing::Values(1, 2, 3, 4),
        testing::Values(1, 2, 3, 4),
        testing::Values(Method::adamw, Method::momentum, Method::libtorch_adam),
        testing::Values(1, 3)));

/// Returns rows that depend on `x`.
at::Tensor rows_of(double x) {
  return at::arange(24, at::kFloat).view({4, 6}).mul(0.37 + x).sin();
}

// Computes the expected update: half of the mean of the sums of three ranks,
// plus half of the next gradient, because two micro-steps form an update.
std::vector<at::Tensor> update_by_hand() {
  auto net = TrainingRun::make_net(3);
  for (const double x : {0, 1, 2}) {
    net->forward(rows_of(x)).pow(2).sum().div(2 * 3).backward();
  }
  net->forward(rows_of(7)).pow(2).sum().div(2).backward();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> updated;
  for (const at::Tensor& parameter : net->parameters()) {
    updated.push_back(parameter.sub(parameter.grad(), 0.05));
  }
  return updated;
}

TEST(OtherWorldSizes, FinishAnUnfinishedAccumulation) {
  const TemporaryDirectory folder;
  const auto step = [](TrainingRun& run, double x) {
    auto region = run.accelerator.accumulate();
    run.accelerator.backward(run.net->forward(rows_of(x)).pow(2).sum());
    run.optimizer->step();
    run.optimizer->zero_grad();
  };
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    TrainingRun run(group, Method::momentum, 2);
    step(run, group.rank());
    run.accelerator.save_state(folder.path() / "c");
  });

  const std::vector<at::Tensor> expected = update_by_hand();
  for (const int size : {1, 2, 4}) {
    run_on_ranks(size, quick(Backend::shm), [&](Group& group) {
      TrainingRun run(group, Method::momentum, 2, 99);
      run.accelerator.load_state(folder.path() / "c");
      EXPECT_FALSE(run.accelerator.sync_gradients());
      step(run, 7);
      EXPECT_TRUE(run.accelerator.sync_gradients());
      const auto result = run.result();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::allclose(result[i], expected[i], 1e-5, 1e-6))
            << size << " ranks, parameter " << i;
      }
    });
  }
}

}  // namespace
}  // namespace accelerate
