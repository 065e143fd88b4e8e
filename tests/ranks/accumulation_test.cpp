// SPDX-License-Identifier: Apache-2.0
// Tests which micro-steps complete an update, the weights of micro-steps, that
// other micro-steps change nothing, and metrics over real rows.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/data_loader.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "support/counting_datasets.h"
#include "support/run_on_ranks.h"
#include "support/training.h"
#include "training/loss_scaling.h"

namespace accelerate {
namespace {

using OptimizerPtr = std::unique_ptr<torch::optim::Optimizer>;

struct AnyOptimizer {
  std::string name;
  std::function<OptimizerPtr(const std::vector<at::Tensor>&)> make;
};

template <typename Optimizer, typename Options>
AnyOptimizer any(const std::string& name, const Options& options) {
  return {name, [options](const std::vector<at::Tensor>& parameters) {
            return std::make_unique<Optimizer>(parameters, options);
          }};
}

std::vector<AnyOptimizer> all_optimizers() {
  namespace libtorch = torch::optim;
  return {
      any<libtorch::SGD>(
          "LibTorchSGD",
          libtorch::SGDOptions(0.1).momentum(0.9).weight_decay(0.1)),
      any<libtorch::Adam>(
          "LibTorchAdam", libtorch::AdamOptions(0.1).amsgrad(true)),
      any<libtorch::AdamW>("LibTorchAdamW", libtorch::AdamWOptions(0.1)),
      any<libtorch::Adagrad>("LibTorchAdagrad", libtorch::AdagradOptions(0.1)),
      any<libtorch::RMSprop>(
          "LibTorchRMSprop", libtorch::RMSpropOptions(0.1).momentum(0.9)),
      any<libtorch::LBFGS>(
          "LibTorchLBFGS", libtorch::LBFGSOptions(0.1).max_iter(2)),
      any<SGD>("SGD", SGDOptions{.lr = 0.1, .momentum = 0.9}),
      any<Adam>("Adam", AdamOptions{.lr = 0.1}),
      any<AdamW>("AdamW", AdamWOptions{.lr = 0.1}),
  };
}

class EachOptimizer : public testing::TestWithParam<AnyOptimizer> {
 protected:
  static OptimizerPtr make(const std::vector<at::Tensor>& parameters) {
    return GetParam().make(parameters);
  }
  static bool is_lbfgs() { return GetParam().name == "LibTorchLBFGS"; }

  // LBFGS evaluates the loss again.
  static void step(torch::optim::Optimizer& optimizer) {
    is_lbfgs() ? optimizer.step([] { return at::zeros({}); })
               : optimizer.step();
  }
};

void PrintTo(const AnyOptimizer& optimizer, std::ostream* out) {
  *out << optimizer.name;
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EachOptimizer,
    testing::ValuesIn(all_optimizers()),
    [](const auto& test) { return test.param.name; });

std::vector<at::Tensor> snapshot(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.detach().clone());
  }
  return copies;
}

std::map<std::string, at::Tensor> state_of(
    const torch::optim::Optimizer& optimizer) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, tensor] : optimizer_state(optimizer).tensors) {
    copies[name] = tensor.clone();
  }
  return copies;
}

void expect_same(
    const std::map<std::string, at::Tensor>& before,
    const std::map<std::string, at::Tensor>& after) {
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    EXPECT_TRUE(at::equal(tensor, after.at(name))) << name;
  }
}

// Completes an update. Then runs a micro-step that completes no update, which
// must not change anything.
TEST_P(EachOptimizer, DoesNothingOnAMicroStep) {
  for (const int size : {1, 2}) {
    run_on_ranks(size, quick(Backend::shm), [](Group& group) {
      Net net = make_net();
      const auto optimizer = make(net->parameters());
      Accelerator accelerator(
          PartialState(group), {.gradient_accumulation_steps = 2});
      accelerator.prepare(net, *optimizer);
      for (int micro = 0; micro < 4; ++micro) {
        const auto region = accelerator.accumulate();
        accelerator.backward(net_loss(net, batch_of(group.rank(), micro)));
        const auto parameters = snapshot(net->parameters());
        const auto state = state_of(*optimizer);
        const auto scalars = optimizer_state(*optimizer).scalars;

        step(*optimizer);
        optimizer->zero_grad();

        const bool same =
            largest_difference(net->parameters(), parameters) == 0;
        EXPECT_EQ(same, !accelerator.sync_gradients()) << "step " << micro;
        if (!accelerator.sync_gradients()) {
          expect_same(state, state_of(*optimizer));
          // LBFGS counts its evaluations of the loss.
          EXPECT_EQ(
              scalars == optimizer_state(*optimizer).scalars, !is_lbfgs());
        }
      }
    });
  }
}

TEST_P(EachOptimizer, DoesNothingAfterAnOverflow) {
  const auto weight = at::ones({3}).set_requires_grad(true);
  const auto optimizer = make({weight});
  LossScaling scaling({.init_scale = 1024}, c10::kCPU);
  scaling.attach(*optimizer);
  for (const bool overflow : {false, true, false}) {
    scaling.begin_backward({});
    scaling.scale(weight.pow(2).sum().mul(overflow ? INFINITY : 1)).backward();
    scaling.finish({weight});
    const auto before = snapshot({weight});
    const auto state = state_of(*optimizer);

    step(*optimizer);
    optimizer->zero_grad();

    EXPECT_EQ(scaling.step_was_skipped(), overflow);
    EXPECT_EQ(largest_difference({weight}, before) == 0, overflow);
    if (overflow) {
      expect_same(state, state_of(*optimizer));
    }
  }
}

class LastGroup : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, LastGroup, testing::Values(1, 2, 3));

// Three micro-batches per group, four in the epoch: the last group has one.
void expect_last_group(
    Group& group, const GradientAccumulationPlugin& plugin, double weight) {
  Net net = make_net();
  Net alone = make_net();
  DataLoader loader(Counting{4 * group.size()}, {.batch_size = 1});
  Accelerator accelerator(
      PartialState(group), {.gradient_accumulation_plugin = plugin});
  accelerator.prepare(net, loader);
  const bool weighted = plugin.weighting == AccumulationWeighting::weighted;
  int updates = 0;
  for (auto& batch : loader) {
    const int micro = static_cast<int>(batch.item<std::int64_t>());
    const double tokens = 1 + micro;
    const auto region =
        weighted ? accelerator.accumulate(tokens) : accelerator.accumulate();
    accelerator.backward(net_loss(net, batch_of(0, micro)));
    if (!accelerator.sync_gradients()) {
      continue;
    }
    if (++updates == 2) {
      EXPECT_TRUE(loader.end_of_dataloader());
      double all = 0;
      at::Tensor sum = at::zeros({});
      for (int r = 0; r < group.size(); ++r) {
        const int index = 3 * group.size() + r;
        const double its = weighted ? 1 + index : 1;
        all += its;
        sum = sum.add(net_loss(alone, batch_of(0, index)).mul(its));
      }
      sum.div(all).mul(weight).backward();
      EXPECT_TRUE(at::allclose(
          net->first->weight.grad(), alone->first->weight.grad(), 1e-4, 1e-6));
    }
    net->zero_grad();
  }
  EXPECT_EQ(updates, 2);
}

TEST_P(LastGroup, HasAThirdOfTheWeightByDefault) {
  run_on_ranks(GetParam(), quick(Backend::shm), [](Group& group) {
    expect_last_group(group, {.num_steps = 3}, 1.0 / 3);
  });
}

TEST_P(LastGroup, HasFullWeightWithGroupWeighting) {
  run_on_ranks(GetParam(), quick(Backend::shm), [](Group& group) {
    expect_last_group(
        group, {.num_steps = 3, .weighting = AccumulationWeighting::group}, 1);
  });
}

TEST_P(LastGroup, HasFullWeightWithTokenWeights) {
  run_on_ranks(GetParam(), quick(Backend::shm), [](Group& group) {
    expect_last_group(
        group,
        {.num_steps = 3, .weighting = AccumulationWeighting::weighted},
        1);
  });
}

TEST_P(LastGroup, ContinuesInTheNextEpochWithoutDataloaderSync) {
  run_on_ranks(GetParam(), quick(Backend::shm), [](Group& group) {
    DataLoader loader(Counting{4 * group.size()}, {.batch_size = 1});
    Accelerator accelerator(
        PartialState(group),
        {.gradient_accumulation_plugin = GradientAccumulationPlugin{
             .num_steps = 3, .sync_with_dataloader = false}});
    accelerator.prepare(loader);
    std::vector<bool> syncs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (auto& batch : loader) {
        static_cast<void>(batch);
        const auto region = accelerator.accumulate();
        syncs.push_back(accelerator.sync_gradients());
      }
    }
    for (std::size_t i = 0; i < syncs.size(); ++i) {
      EXPECT_EQ(syncs[i], i % 3 == 2) << "micro-step " << i;
    }
  });
}

class Metrics : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, Metrics, testing::Values(1, 2, 3, 5));

TEST_P(Metrics, UseExactlyTheRealRowsInOrder) {
  for (const std::int64_t n : {1, 7, 12, 23}) {
    for (const std::int64_t batch_size : {1, 4}) {
      run_on_ranks(GetParam(), quick(Backend::shm), [=](Group& group) {
        DataLoader loader(Counting{n}, {.batch_size = batch_size});
        Accelerator accelerator{PartialState(group), {}};
        accelerator.prepare(loader);
        std::vector<std::int64_t> rows;
        std::vector<Json> texts;
        std::vector<std::int64_t> expected;
        std::vector<Json> wanted_texts;
        for (at::Tensor& batch : loader) {
          const std::map<std::string, at::Tensor> nest = {
              {"rows", batch.view({-1, 1}).expand({-1, 2})},
              // Adds one number per rank, and a matrix whose number of rows
              // differs from the number of samples.
              {"loss", at::scalar_tensor(group.rank(), at::kFloat)},
              {"other", at::zeros({batch.size(0) + 1, 2})}};
          const auto all = accelerator.gather_for_metrics(nest);
          for (const auto index : to_indices(all.at("rows").select(1, 0))) {
            rows.push_back(index);
          }
          EXPECT_EQ(all.at("loss").size(0), group.size());
          EXPECT_EQ(
              all.at("other").size(0), group.size() * (batch.size(0) + 1));
          std::vector<Json> names;
          for (const auto index : to_indices(batch)) {
            names.emplace_back("sample " + std::to_string(index));
          }
          for (Json& name : accelerator.gather_for_metrics(names)) {
            texts.push_back(std::move(name));
          }
        }
        for (std::int64_t i = 0; i < n; ++i) {
          expected.push_back(i);
          wanted_texts.emplace_back("sample " + std::to_string(i));
        }
        EXPECT_EQ(rows, expected) << "n " << n;
        EXPECT_EQ(texts, wanted_texts) << "n " << n;
      });
    }
  }
}

// The real rows of every kind of loader: each sample once, in dataset order.
TEST_P(Metrics, UseTheRealRowsOfEveryLoader) {
  for (const std::int64_t n : {1, 7, 12, 23}) {
    for (int bits = 0; bits < 8; ++bits) {
      DataLoaderConfiguration data;
      data.split_batches = (bits & 1) != 0;
      data.dispatch_batches = (bits & 2) != 0;
      const bool stream = (bits & 4) != 0;
      const std::int64_t batch_size = data.split_batches ? 2 * GetParam() : 2;
      SCOPED_TRACE(
          "n " + std::to_string(n) + (data.split_batches ? ", split" : "") +
          (*data.dispatch_batches ? ", dispatch" : "") +
          (stream ? ", stream" : ""));
      run_on_ranks(GetParam(), quick(Backend::shm), [&](Group& group) {
        AcceleratorOptions options;
        options.dataloader_config = data;
        Accelerator accelerator(PartialState(group), options);
        const auto gathered = [&](auto& loader, std::int64_t skipped) {
          std::vector<std::int64_t> rows;
          accelerator.prepare(loader);
          auto rest = accelerator.skip_first_batches(loader, skipped);
          for (at::Tensor& batch : rest) {
            for (const auto row :
                 to_indices(accelerator.gather_for_metrics(batch))) {
              rows.push_back(row);
            }
          }
          return rows;
        };
        const std::int64_t per_step =
            data.split_batches ? batch_size : batch_size * group.size();
        for (const std::int64_t skipped : {0, 1}) {
          std::vector<std::int64_t> expected;
          for (std::int64_t i = skipped * per_step; i < n; ++i) {
            expected.push_back(i);
          }
          if (stream) {
            DataLoader loader(CountingStream{n}, {.batch_size = batch_size});
            EXPECT_EQ(gathered(loader, skipped), expected);
          } else {
            DataLoader loader(Counting{n}, {.batch_size = batch_size});
            EXPECT_EQ(gathered(loader, skipped), expected);
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace accelerate
