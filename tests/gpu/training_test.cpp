// SPDX-License-Identifier: Apache-2.0
// Training on a GPU gives the same results as on the CPU.
#include "support/training.h"

#include "accelerate/accelerate.h"
#include "accelerate/error.h"
#include "gpu/gpu.h"

namespace accelerate {
namespace {

struct Rows {
  std::int64_t size() const { return 48; }
  at::Tensor get(std::int64_t index) const {
    return batch_of(0, static_cast<int>(index))[0];
  }
};

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;  // On the CPU.
};

template <typename MakeOptimizer>
Trained train_with(
    PartialState state,
    const AcceleratorOptions& options,
    const MakeOptimizer& make_optimizer,
    int epochs = 3) {
  Accelerator accelerator(std::move(state), options);
  Net net = make_net();
  auto optimizer = make_optimizer(net->parameters());
  DataLoader loader(Rows(), {.batch_size = 6});
  accelerator.prepare(loader, net, optimizer);
  std::vector<at::Tensor> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& batch : loader) {
      EXPECT_EQ(batch.device(), accelerator.device());
      const at::Tensor loss = net_loss(net, batch);
      accelerator.backward(loss);
      accelerator.clip_grad_norm_(net->parameters(), 10.0);
      optimizer.step();
      optimizer.zero_grad();
      losses.push_back(loss.detach());
    }
  }
  Trained result;
  for (const at::Tensor& loss : losses) {
    result.losses.push_back(loss.item<double>());
  }
  for (const at::Tensor& parameter : net->parameters()) {
    result.parameters.push_back(parameter.detach().cpu());
  }
  return result;
}

constexpr auto kAdamW = [](const std::vector<at::Tensor>& parameters) {
  return AdamW(parameters, 1e-2);
};
constexpr auto kAdam = [](const std::vector<at::Tensor>& parameters) {
  return Adam(parameters, 1e-2);
};
constexpr auto kMomentum = [](const std::vector<at::Tensor>& parameters) {
  return SGD(parameters, SGDOptions{.lr = 1e-2, .momentum = 0.9});
};
constexpr auto kLibTorchAdamW = [](const std::vector<at::Tensor>& parameters) {
  return torch::optim::AdamW(parameters, torch::optim::AdamWOptions(1e-2));
};

void expect_close(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance) << "step " << i;
  }
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    EXPECT_LE(
        (a.parameters[i] - b.parameters[i]).abs().max().item<double>(),
        10 * tolerance)
        << "parameter " << i;
  }
}

TEST(GpuTraining, MatchesTheCpu) {
  ACCELERATE_NEEDS_GPU();
  const c10::Device cpu(c10::kCPU);

  // In fp32, a different summation order changes a few units in the last place
  // per step.
  expect_close(
      train_with(single_process_on(cpu), {}, kAdamW),
      train_with(single_process_on(gpu()), {}, kAdamW),
      1e-5);
  expect_close(
      train_with(single_process_on(cpu), {}, kAdam),
      train_with(single_process_on(gpu()), {}, kAdam),
      1e-5);
  expect_close(
      train_with(single_process_on(cpu), {}, kMomentum),
      train_with(single_process_on(gpu()), {}, kMomentum),
      1e-5);
  expect_close(
      train_with(single_process_on(cpu), {}, kLibTorchAdamW),
      train_with(single_process_on(gpu()), {}, kLibTorchAdamW),
      1e-5);
}

TEST(GpuTraining, MixedPrecisionStaysNearFp32) {
  ACCELERATE_NEEDS_GPU();
  const Trained exact = train_with(single_process_on(gpu()), {}, kAdamW);

  // bf16 has 8 significant bits, fp16 has 11.
  const Trained bf16 = train_with(
      single_process_on(gpu()), {.mixed_precision = Precision::bf16}, kAdamW);
  const Trained fp16 = train_with(
      single_process_on(gpu()), {.mixed_precision = Precision::fp16}, kAdamW);
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    EXPECT_NEAR(bf16.losses[i], exact.losses[i], 2e-2) << i;
    EXPECT_NEAR(fp16.losses[i], exact.losses[i], 1e-2) << i;
  }
  EXPECT_NE(bf16.losses, exact.losses);
}

TEST(GpuTraining, OneProcessOverNcclMatchesBitForBit) {
  ACCELERATE_NEEDS_GPU();
  const Trained local = train_with(single_process_on(gpu()), {}, kAdamW);

  const Trained reduced = train_with(
      single_process_over_nccl(),
      {.ddp_kwargs = {.bucket_cap_mb = 1e-4}},
      kAdamW);

  EXPECT_EQ(local.losses, reduced.losses);
  for (std::size_t i = 0; i < local.parameters.size(); ++i) {
    EXPECT_TRUE(local.parameters[i].equal(reduced.parameters[i])) << i;
  }
}

TEST(GpuTraining, SkipsTheStepOnTheDeviceAfterAnOverflow) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()),
      {.mixed_precision = Precision::fp16,
       .autocast_scope = AutocastScope::manual});
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-2);
  accelerator.prepare(net, optimizer);
  const at::Tensor rows = batch_of(0, 0).to(gpu());
  const auto step = [&](double factor) {
    accelerator.backward(net_loss(net, rows).mul(factor));
    optimizer.step();
    optimizer.zero_grad();
  };
  const at::Tensor before = net->first->weight.detach().clone();

  step(INFINITY);

  EXPECT_TRUE(accelerator.optimizer_step_was_skipped());
  EXPECT_TRUE(net->first->weight.equal(before));

  step(1.0);

  EXPECT_FALSE(accelerator.optimizer_step_was_skipped());
  EXPECT_FALSE(net->first->weight.equal(before));
}

TEST(GpuTraining, SkipsTheStepOfALibTorchOptimizer) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()),
      {.mixed_precision = Precision::fp16,
       .autocast_scope = AutocastScope::manual});
  Net net = make_net();
  torch::optim::AdamW optimizer(
      net->parameters(), torch::optim::AdamWOptions(1e-2));
  accelerator.prepare(net, optimizer);
  const at::Tensor before = net->first->weight.detach().clone();

  accelerator.backward(net_loss(net, batch_of(0, 0).to(gpu())).mul(INFINITY));
  optimizer.step();

  EXPECT_TRUE(net->first->weight.equal(before));
}

}  // namespace
}  // namespace accelerate
