// SPDX-License-Identifier: Apache-2.0
// How often a step makes the program wait for the GPU.
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

// Waits in the last eight of sixteen steps.
template <typename Optimizer>
std::vector<std::string> waits_of(
    PartialState state,
    const AcceleratorOptions& options,
    Net& net,
    Optimizer& optimizer) {
  Accelerator accelerator(std::move(state), options);
  DataLoader loader(Rows6(), {.batch_size = 4, .num_workers = 1});
  accelerator.prepare(loader, net, optimizer);
  std::unique_ptr<WaitCounter> counter;
  std::vector<std::string> calls;
  int step = 0;
  for (auto& batch : loader) {
    accelerator.backward(net_loss(net, batch));
    accelerator.clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    if (++step == kSteps) {
      counter = std::make_unique<WaitCounter>();
    }
    if (step == 2 * kSteps) {
      calls = counter->calls();
      counter.reset();
    }
  }
  EXPECT_EQ(step, 2 * kSteps);
  return calls;
}

TEST(GpuWaits, AreCounted) {
  ACCELERATE_NEEDS_GPU();
  const at::Tensor one = at::ones({1}, at::TensorOptions(gpu()));
  const WaitCounter counter;

  static_cast<void>(one.item<float>());

  EXPECT_GE(counter.waits(), 1);
}

TEST(GpuWaits, NoneInAStepOfAnyPrecision) {
  ACCELERATE_NEEDS_GPU();
  for (const Precision precision :
       {Precision::no, Precision::bf16, Precision::fp16}) {
    Net net = make_net();
    AdamW optimizer(net->parameters(), 1e-3);
    EXPECT_THAT(
        waits_of(
            alone_on(gpu()), {.mixed_precision = precision}, net, optimizer),
        testing::IsEmpty())
        << name_of(precision);
  }
}

struct Scheduled {
  std::vector<double> losses;
  std::vector<std::string> waits;  // in the last eight steps
  std::int64_t position = 0;
  int skipped = 0;
};

// From a scale that overflows often; `asks` each step what it did.
Scheduled schedule_in_fp16(bool asks) {
  Accelerator accelerator(
      alone_on(gpu()),
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
  std::unique_ptr<WaitCounter> counter;
  const at::Tensor rows = batch_of(0, 0).mul(4.0).to(gpu());
  for (int step = 0; step < 5 * kSteps; ++step) {
    if (step == 4 * kSteps && !asks) {
      counter = std::make_unique<WaitCounter>();
    }
    const at::Tensor loss = net_loss(net, rows);
    accelerator.backward(loss);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    losses.push_back(loss.detach());
    if (asks) {
      run.skipped += accelerator.optimizer_step_was_skipped() ? 1 : 0;
      EXPECT_EQ(scheduler.last_epoch(), step + 1 - run.skipped);
    }
  }
  if (counter) {
    run.waits = counter->calls();
    counter.reset();
  }
  for (const at::Tensor& loss : losses) {
    run.losses.push_back(loss.item<double>());
  }
  run.position = scheduler.last_epoch();
  return run;
}

// The GPU knows which steps count before the program does.
TEST(GpuWaits, NoneWithAPreparedSchedulerInFp16) {
  ACCELERATE_NEEDS_GPU();
  const Scheduled asked = schedule_in_fp16(true);
  const Scheduled unasked = schedule_in_fp16(false);

  EXPECT_THAT(unasked.waits, testing::IsEmpty());
  EXPECT_EQ(unasked.position, asked.position);
  EXPECT_EQ(unasked.losses, asked.losses);
  EXPECT_GT(asked.skipped, 3);
  EXPECT_LT(asked.skipped, 5 * kSteps - 8);
  std::cout << asked.skipped << " of " << 5 * kSteps << " steps skipped\n";
}

TEST(GpuWaits, NoneWithMomentum) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  SGD optimizer(net->parameters(), SGDOptions{.lr = 1e-3, .momentum = 0.9});

  EXPECT_THAT(
      waits_of(
          alone_on(gpu()),
          {.mixed_precision = Precision::fp16},
          net,
          optimizer),
      testing::IsEmpty());
}

TEST(GpuWaits, NoneOverNccl) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-3);

  EXPECT_THAT(
      waits_of(alone_over_nccl(), {}, net, optimizer), testing::IsEmpty());
}

TEST(GpuWaits, OneAStepForAForeignOptimizerInFp16) {
  ACCELERATE_NEEDS_GPU();
  Net net = make_net();
  torch::optim::AdamW optimizer(
      net->parameters(), torch::optim::AdamWOptions(1e-3));

  EXPECT_EQ(
      waits_of(
          alone_on(gpu()), {.mixed_precision = Precision::fp16}, net, optimizer)
          .size(),
      static_cast<std::size_t>(kSteps));
}

}  // namespace
}  // namespace accelerate
