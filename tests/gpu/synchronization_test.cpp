// SPDX-License-Identifier: Apache-2.0
// How often a training step makes the CPU wait for the GPU.
#include "accelerate/accelerate.h"
#include "gpu/gpu.h"
#include "support/training.h"

namespace accelerate {
namespace {

struct Rows6 {
  std::int64_t size() const { return 64; }
  at::Tensor get(std::int64_t index) const {
    return batch_of(0, static_cast<int>(index))[0];
  }
};

constexpr int kSteps = 8;

// Returns the synchronizing calls in the last eight of sixteen steps.
template <typename Optimizer>
std::vector<std::string> syncs_of(
    PartialState state,
    const AcceleratorOptions& options,
    Net& net,
    Optimizer& optimizer) {
  Accelerator accelerator(std::move(state), options);
  DataLoader loader(Rows6(), {.batch_size = 4, .num_workers = 1});
  accelerator.prepare(loader, net, optimizer);
  std::unique_ptr<SyncCounter> counter;
  std::vector<std::string> calls;
  int step = 0;
  for (auto& batch : loader) {
    accelerator.backward(net_loss(net, batch));
    accelerator.clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    if (++step == kSteps) {
      counter = std::make_unique<SyncCounter>();
    }
    if (step == 2 * kSteps) {
      calls = counter->calls();
      counter.reset();
    }
  }
  EXPECT_EQ(step, 2 * kSteps);
  return calls;
}

TEST(GpuSynchronization, IsCounted) {
  ACCELERATE_NEEDS_GPU();
  const at::Tensor value = at::ones({1}, at::TensorOptions(gpu()));
  const SyncCounter counter;

  static_cast<void>(value.item<float>());

  EXPECT_GE(counter.count(), 1);
}

TEST(GpuSynchronization, DoesNotHappenInAStepOfAnyPrecision) {
  ACCELERATE_NEEDS_GPU();
  for (const Precision precision :
       {Precision::no, Precision::bf16, Precision::fp16}) {
    Net net = make_net();
    AdamW optimizer(net->parameters(), 1e-3);
    EXPECT_THAT(
        syncs_of(
            single_process_on(gpu()),
            {.mixed_precision = precision},
            net,
            optimizer),
        testing::IsEmpty())
        << name_of(precision);
  }
}

struct Scheduled {
  std::vector<double> losses;
  std::vector<std::string> syncs;  // The calls in the last eight steps.
  std::int64_t position = 0;
  int skipped = 0;
};

// Trains with an initial loss scale that overflows often. If `queries` is true,
// asks after each step whether the step was skipped, which waits for the
// device.
Scheduled schedule_in_fp16(bool queries) {
  Accelerator accelerator(
      single_process_on(gpu()),
      {.mixed_precision = Precision::fp16,
       .scaler_kwargs =
           GradScalerKwargs{.init_scale = 0x1p24, .growth_interval = 3}});
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-2);
  LambdaLR scheduler(optimizer, [](std::int64_t step) {
    return 1.0 / static_cast<double>(1 + step);
  });
  accelerator.prepare(net, optimizer, scheduler);
  Scheduled run;
  std::vector<at::Tensor> losses;
  std::unique_ptr<SyncCounter> counter;
  const at::Tensor rows = batch_of(0, 0).mul(4.0).to(gpu());
  for (int step = 0; step < 5 * kSteps; ++step) {
    if (step == 4 * kSteps && !queries) {
      counter = std::make_unique<SyncCounter>();
    }
    const at::Tensor loss = net_loss(net, rows);
    accelerator.backward(loss);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    losses.push_back(loss.detach());
    if (queries) {
      run.skipped += accelerator.optimizer_step_was_skipped() ? 1 : 0;
      EXPECT_EQ(scheduler.last_epoch(), step + 1 - run.skipped);
    }
  }
  if (counter) {
    run.syncs = counter->calls();
    counter.reset();
  }
  for (const at::Tensor& loss : losses) {
    run.losses.push_back(loss.item<double>());
  }
  run.position = scheduler.last_epoch();
  return run;
}

// The GPU knows which steps are skipped before the CPU does.
TEST(GpuSynchronization, DoesNotHappenWithAPreparedSchedulerInFp16) {
  ACCELERATE_NEEDS_GPU();
  const Scheduled queried = schedule_in_fp16(true);
  const Scheduled unqueried = schedule_in_fp16(false);

  EXPECT_THAT(unqueried.syncs, testing::IsEmpty());
  EXPECT_EQ(unqueried.position, queried.position);
  EXPECT_EQ(unqueried.losses, queried.losses);
  EXPECT_GT(queried.skipped, 3);
  EXPECT_LT(queried.skipped, 5 * kSteps - 8);
  std::cout << queried.skipped << " of " << 5 * kSteps << " steps skipped\n";
}

TEST(GpuSynchronization, DoesNotHappenWithMomentum) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  SGD optimizer(net->parameters(), SGDOptions{.lr = 1e-3, .momentum = 0.9});

  EXPECT_THAT(
      syncs_of(
          single_process_on(gpu()),
          {.mixed_precision = Precision::fp16},
          net,
          optimizer),
      testing::IsEmpty());
}

TEST(GpuSynchronization, DoesNotHappenOverNccl) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-3);

  EXPECT_THAT(
      syncs_of(single_process_over_nccl(), {}, net, optimizer),
      testing::IsEmpty());
}

TEST(GpuSynchronization, HappensOncePerStepForALibTorchOptimizerInFp16) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  torch::optim::AdamW optimizer(
      net->parameters(), torch::optim::AdamWOptions(1e-3));

  EXPECT_EQ(
      syncs_of(
          single_process_on(gpu()),
          {.mixed_precision = Precision::fp16},
          net,
          optimizer)
          .size(),
      static_cast<std::size_t>(kSteps));
}

}  // namespace
}  // namespace accelerate
