// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/nn.h>

#include "accelerate/accelerate.h"
#include "accelerate/error.h"
#include "gpu/gpu.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

struct Numbers {
  std::int64_t size() const { return 40; }
  at::Tensor get(std::int64_t index) const {
    return at::full({1000}, index, at::kLong);
  }
};

TEST(GpuDevice, IsChosenByDefault) {
  ACCELERATE_NEEDS_GPU();
  PartialState::reset();
  const PartialState state;

  EXPECT_EQ(state.device(), gpu());
  EXPECT_EQ(state.distributed_type(), DistributedType::no);
  PartialState::reset();
  EXPECT_EQ(
      PartialState(PartialStateOptions{.cpu = true}).device(),
      c10::Device(c10::kCPU));
  PartialState::reset();
}

// LibTorch looks up its CUDA hooks only once. In this test, that happens before
// any code of this library runs.
TEST(GpuDevice, IsAvailableToAProgramThatSeedsFirst) {
  at::manual_seed(1);
  ACCELERATE_NEEDS_GPU();

  EXPECT_TRUE(at::hasCUDA());
  EXPECT_EQ(at::ones({2}, at::TensorOptions(gpu())).sum().item<int>(), 2);
}

TEST(GpuDevice, IsDescribed) {
  ACCELERATE_NEEDS_GPU();
  const DeviceBackend& backend = cuda_backend();

  EXPECT_THAT(backend.describe(0), testing::HasSubstr("(sm_"));
  EXPECT_GT(backend.memory(0).total, 0);
  EXPECT_TRUE(backend.computes_in(at::kFloat, 0));
}

TEST(GpuLoader, CopiesEveryBatchInOrder) {
  ACCELERATE_NEEDS_GPU();
  for (const std::int64_t workers : {0, 2}) {
    Accelerator accelerator(single_process_on(gpu()), {});
    DataLoader loader(Numbers(), {.batch_size = 4, .num_workers = workers});
    accelerator.prepare(loader);
    std::vector<at::Tensor> sums;
    for (auto& batch : loader) {
      EXPECT_EQ(batch.device(), gpu());
      sums.push_back(batch.sum());
    }
    ASSERT_EQ(sums.size(), 10U);
    for (std::int64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(
          sums[static_cast<std::size_t>(i)].item<std::int64_t>(),
          1000 * (16 * i + 6));
    }
  }
}

TEST(GpuLoader, CopiesFromPageableMemory) {
  ACCELERATE_NEEDS_GPU();
  for (const bool non_blocking : {false, true}) {
    DataLoaderConfiguration data;
    data.non_blocking = non_blocking;
    Accelerator accelerator(
        single_process_on(gpu()), {.dataloader_config = data});
    DataLoader loader(Numbers(), {.batch_size = 40, .pin_memory = false});
    accelerator.prepare(loader);
    for (auto& batch : loader) {
      EXPECT_EQ(batch.sum().item<std::int64_t>(), 1000 * 780);
    }
  }
}

TEST(GpuMemory, ErrorStatesRequestedAndFreeMemory) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(single_process_on(gpu()), {});
  auto weight = at::ones({1}, at::TensorOptions(gpu())).requires_grad_();
  accelerator.prepare_parameters({"weight"}, {weight}, {});
  const DeviceMemory memory = cuda_backend().memory(0);
  const std::int64_t half = memory.free / 4 / 2 + (1LL << 28);

  const std::string text = message_of<OutOfMemoryError>([&] {
    const at::Tensor many = weight.expand({half}).mul(2);
    accelerator.backward(many.sum());
  });

  EXPECT_THAT(text, testing::HasSubstr("is out of memory: "));
  EXPECT_THAT(text, testing::HasSubstr(" requested, "));
  EXPECT_THAT(text, testing::HasSubstr(" free, peak use by tensors "));
  std::cout << text << "\n";
  clear_device_cache();
}

TEST(GpuMemory, FirstStepReportsTheMemoryItsStateNeeds) {
  ACCELERATE_NEEDS_GPU();
  const auto on_gpu = at::TensorOptions(gpu());
  auto weight = at::ones({1LL << 28}, on_gpu).requires_grad_();
  weight.mutable_grad() = at::ones_like(weight);
  AdamW optimizer({weight}, 1e-3);
  const std::int64_t left = 1LL << 29;  // Half of one moment.
  at::Tensor filler = at::empty(
      {cuda_backend().memory(0).free - left}, on_gpu.dtype(at::kByte));

  const std::string text =
      message_of<OutOfMemoryError>([&] { optimizer.step(); });

  EXPECT_THAT(
      text, testing::HasSubstr("is out of memory: 1024.00 MiB requested"));
  filler.reset();
  clear_device_cache();
  optimizer.step();
  EXPECT_NEAR(weight[0].item<double>(), 1 - 1e-3 - 1e-5, 1e-6);
}

TEST(GpuMemory, FindsABatchSizeThatFits) {
  ACCELERATE_NEEDS_GPU();
  clear_device_cache();
  const std::int64_t free = cuda_backend().memory(0).free;

  const auto found = find_executable_batch_size(
      [&](std::int64_t batch_size) {
        const at::Tensor rows = at::empty(
            {batch_size, free / 4}, at::TensorOptions(gpu()).dtype(at::kByte));
        return rows.size(0);
      },
      8,
      [](std::int64_t size) { return size / 2; });

  EXPECT_EQ(found, 2);
}

TEST(GpuCheckpoint, RestoresTheRandomNumberGenerator) {
  ACCELERATE_NEEDS_GPU();
  const std::filesystem::path folder = fresh_folder();
  Accelerator accelerator(single_process_on(gpu()), {});
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-2);
  accelerator.prepare(net, optimizer);
  const auto step = [&] {
    const at::Tensor rows =
        torch::dropout(batch_of(0, 0).to(gpu()), 0.5, /*train=*/true);
    const at::Tensor loss = net_loss(net, rows);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    return loss.item<double>();
  };
  step();
  accelerator.save_state(folder);
  const std::vector<double> first = {step(), step()};

  accelerator.load_state(folder);
  const std::vector<double> again = {step(), step()};

  EXPECT_EQ(first, again);
}

/// A training run with dropout on the GPU; in fp16 the loss scale changes every
/// other step.
class GpuRun {
 public:
  explicit GpuRun(Precision precision)
      : accelerator(
            single_process_on(gpu()),
            {.mixed_precision = precision,
             .scaler_kwargs =
                 GradScalerKwargs{.init_scale = 64, .growth_interval = 2}}),
        net_(make_net()),
        optimizer_(net_->parameters(), 1e-2) {
    accelerator.prepare(net_, optimizer_);
  }

  double step() {
    const at::Tensor rows =
        torch::dropout(batch_of(0, 0).to(gpu()), 0.5, /*train=*/true);
    const at::Tensor loss = net_loss(net_, rows);
    accelerator.backward(loss);
    optimizer_.step();
    optimizer_.zero_grad();
    return loss.item<double>();
  }

  Accelerator accelerator;

 private:
  Net net_;
  AdamW optimizer_;
};

// Resumes with new objects in deterministic mode, from checkpoints that were
// saved in the foreground or in the background (through pinned memory).
TEST(GpuCheckpoint, ResumesBitForBit) {
  ACCELERATE_NEEDS_GPU();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  constexpr int kSteps = 6;
  const std::filesystem::path folder = fresh_folder();
  for (const Precision precision :
       {Precision::no, Precision::bf16, Precision::fp16}) {
    std::vector<double> uninterrupted;
    {
      torch::manual_seed(7);
      GpuRun run(precision);
      for (int step = 1; step <= kSteps; ++step) {
        uninterrupted.push_back(run.step());
        run.accelerator.save_state(
            folder / std::to_string(step), {.blocking = step % 2 == 0});
      }
      run.accelerator.wait_for_checkpoint();
    }
    for (int stop = 1; stop < kSteps; ++stop) {
      torch::manual_seed(99);
      GpuRun run(precision);
      run.accelerator.load_state(folder / std::to_string(stop));
      std::vector<double> resumed(
          uninterrupted.begin(), uninterrupted.begin() + stop);
      while (resumed.size() < kSteps) {
        resumed.push_back(run.step());
      }
      EXPECT_EQ(resumed, uninterrupted)
          << name_of(precision) << ", stopped at " << stop;
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(GpuCollectives, RunOverNcclAndThroughTheCpu) {
  ACCELERATE_NEEDS_GPU();
  const PartialState nccl = single_process_over_nccl();
  const at::Tensor values = at::arange(5, at::TensorOptions(gpu()));
  const at::Tensor reduced = values.clone();
  const at::Tensor gathered = at::zeros_like(values);
  const at::Tensor scattered = at::zeros_like(values);
  const Group& group = nccl.group();

  group.start_all_reduce(reduced).wait();
  group.start_broadcast(reduced).wait();
  group.start_all_gather(gathered, values).wait();
  group.start_reduce_scatter(scattered, values).wait();

  EXPECT_TRUE(reduced.equal(values));
  EXPECT_TRUE(gathered.equal(values));
  EXPECT_TRUE(scattered.equal(values));
  EXPECT_EQ(nccl.backend(), "nccl");
  EXPECT_TRUE(nccl.group().gather({values})[0].equal(values));
}

TEST(GpuPrecision, SwitchesTf32) {
  ACCELERATE_NEEDS_GPU();
  {
    const Accelerator on(single_process_on(gpu()), {.allow_tf32 = true});
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  }
  const Accelerator off(single_process_on(gpu()), {.allow_tf32 = false});
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

}  // namespace
}  // namespace accelerate
