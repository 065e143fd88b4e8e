// SPDX-License-Identifier: Apache-2.0
// Training steps that are captured and replayed.
#include <filesystem>

#include <unistd.h>

#include "accelerate/accelerate.h"
#include "gpu/gpu.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

struct TrainedSteps {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
  std::int64_t graphs = 0;
  std::int64_t replays = 0;
  std::int64_t steps = 0;
};

at::Tensor rows_of(int step) {
  const at::Tensor all = batch_of(0, step).to(gpu());
  return step % 3 == 2 ? all.narrow(0, 0, 2) : all;
}

TrainedSteps train_steps(bool graphed, Precision precision) {
  Accelerator accelerator(
      single_process_on(gpu()), {.mixed_precision = precision});
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-2);
  accelerator.prepare(net, optimizer);
  auto eager = [&](const at::Tensor& rows) {
    const at::Tensor loss = net_loss(net, rows);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    return loss.detach();
  };
  auto step = accelerator.graph(eager);
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor rows = rows_of(i);
    losses.push_back(graphed ? step(rows) : eager(rows));
    for (auto& group : optimizer.param_groups()) {
      group.options().set_lr(1e-2 / (i + 2));
    }
  }
  TrainedSteps run;
  for (const at::Tensor& loss : losses) {
    run.losses.push_back(loss.item<double>());
  }
  for (const at::Tensor& parameter : net->parameters()) {
    run.parameters.push_back(parameter.detach().cpu());
  }
  run.graphs = step.core().num_graphs();
  run.replays = step.core().num_replays();
  run.steps = accelerator.step();
  return run;
}

// Two shapes, a learning rate that changes in each step, and losses that the
// program keeps.
TEST(GpuGraph, MatchesEagerStepsBitForBit) {
  ACCELERATE_NEEDS_GPU();
  for (const Precision precision :
       {Precision::no, Precision::bf16, Precision::fp16}) {
    const TrainedSteps eager = train_steps(false, precision);
    const TrainedSteps graphed = train_steps(true, precision);

    EXPECT_EQ(graphed.losses, eager.losses) << name_of(precision);
    for (std::size_t i = 0; i < eager.parameters.size(); ++i) {
      EXPECT_TRUE(graphed.parameters[i].equal(eager.parameters[i]))
          << name_of(precision) << " " << i;
    }
    EXPECT_EQ(graphed.steps, 20);
    EXPECT_EQ(graphed.graphs, 2);
    EXPECT_EQ(graphed.replays, 20 - 2 * 3);
  }
}

// `load_state` replaces the optimizer's tensors, so a graph with the old
// addresses would use freed memory.
TEST(GpuGraph, ContinuesAfterALoadBitForBit) {
  ACCELERATE_NEEDS_GPU();
  const std::filesystem::path folder = fresh_folder();
  std::vector<std::vector<double>> runs;
  for (const bool graphed : {false, true}) {
    Accelerator accelerator(single_process_on(gpu()), {});
    Net net = make_net();
    AdamW optimizer(net->parameters(), 1e-2);
    accelerator.prepare(net, optimizer);
    auto eager = [&](const at::Tensor& rows) {
      const at::Tensor loss = net_loss(net, rows);
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      return loss.detach();
    };
    auto step = accelerator.graph(eager);
    std::vector<double> losses;
    const auto run = [&](int first, int last) {
      for (int i = first; i < last; ++i) {
        const at::Tensor rows = rows_of(i);
        losses.push_back((graphed ? step(rows) : eager(rows)).item<double>());
      }
    };
    run(0, 10);
    accelerator.save_state(folder);
    run(10, 20);
    accelerator.load_state(folder);
    run(10, 20);
    EXPECT_EQ(
        std::vector<double>(losses.begin() + 10, losses.begin() + 20),
        std::vector<double>(losses.begin() + 20, losses.end()));
    EXPECT_EQ(step.core().num_graphs(), graphed ? 2 : 0);
    runs.push_back(std::move(losses));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(GpuGraph, DrawsNewRandomNumbersInEachReplay) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(single_process_on(gpu()), {});
  auto drop = accelerator.graph([](const at::Tensor& ones) {
    return torch::dropout(ones, 0.5, /*train=*/true);
  });
  const at::Tensor ones = at::ones({1000}, at::TensorOptions(gpu()));
  std::vector<at::Tensor> masks;
  for (int i = 0; i < 6; ++i) {
    masks.push_back(drop(ones));
  }

  EXPECT_EQ(drop.core().num_graphs(), 1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(masks[i].equal(masks[5])) << i;
    EXPECT_NEAR(masks[i].mean().item<double>(), 1.0, 0.2);
  }
}

TEST(GpuGraph, ReportsWhyItRunsEagerly) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(single_process_on(gpu()), {});
  auto reads = accelerator.graph(
      [](const at::Tensor& x) { return x.mul(x.item<double>()); });
  const at::Tensor three = at::full({1}, 3.0, at::TensorOptions(gpu()));

  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(reads(three).item<double>(), 9);
  }

  EXPECT_EQ(reads.core().num_graphs(), 0);
  EXPECT_NE(reads.core().why_not(), "");
  std::cout << reads.core().why_not() << "\n";
}

TEST(GpuGraph, CapturesAtMostMaxGraphs) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(single_process_on(gpu()), {});
  auto twice = accelerator.graph(
      [](const at::Tensor& rows) { return rows.mul(2); },
      {.warmup_steps = 1, .max_graphs = 2});

  for (int round = 0; round < 3; ++round) {
    for (std::int64_t size = 1; size <= 4; ++size) {
      const at::Tensor rows = at::ones({size}, at::TensorOptions(gpu()));
      EXPECT_EQ(
          twice(rows).sum().item<double>(), 2.0 * static_cast<double>(size));
    }
  }

  EXPECT_EQ(twice.core().num_graphs(), 2);
}

TEST(GpuGraph, ReplaysWithoutSynchronisation) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(single_process_on(gpu()), {});
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-2);
  accelerator.prepare(net, optimizer);
  auto step = accelerator.graph([&](const at::Tensor& rows) {
    const at::Tensor loss = net_loss(net, rows);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  });
  const at::Tensor rows = batch_of(0, 0).to(gpu());
  for (int i = 0; i < 5; ++i) {
    step(rows);
  }
  const SyncCounter counter;

  for (int i = 0; i < 5; ++i) {
    step(rows);
  }

  EXPECT_THAT(counter.calls(), testing::IsEmpty());
  EXPECT_EQ(step.core().num_replays(), 7);
}

}  // namespace
}  // namespace accelerate
