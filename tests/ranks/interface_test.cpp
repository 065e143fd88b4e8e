// SPDX-License-Identifier: Apache-2.0
// Options, methods and properties of the Accelerator that other tests do not
// use.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/autocast.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "support/counting_datasets.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

AcceleratorOptions with_data(const DataLoaderConfiguration& data) {
  AcceleratorOptions options;
  options.dataloader_config = data;
  return options;
}

Accelerator alone(const AcceleratorOptions& options = {}) {
  return Accelerator(PartialState(Group()), options);
}

// Sets an environment variable for the duration of a test.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~EnvironmentVariable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(AcceleratorOptions, ExplicitValuesOverrideTheEnvironment) {
  const EnvironmentVariable precision("ACCELERATE_MIXED_PRECISION", "bf16");
  const EnvironmentVariable steps(
      "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4");

  const auto from_environment = alone();
  EXPECT_EQ(from_environment.mixed_precision(), Precision::bf16);
  EXPECT_EQ(from_environment.gradient_accumulation_steps(), 4);

  const auto from_options = alone(
      {.mixed_precision = Precision::no, .gradient_accumulation_steps = 2});
  EXPECT_EQ(from_options.mixed_precision(), Precision::no);
  EXPECT_EQ(from_options.gradient_accumulation_steps(), 2);
}

TEST(AcceleratorOptions, DefaultsMatchHuggingFaceAccelerate) {
  const auto accelerator = alone();

  EXPECT_EQ(accelerator.mixed_precision(), Precision::no);
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 1);
  EXPECT_TRUE(accelerator.sync_gradients());
  EXPECT_FALSE(accelerator.optimizer_step_was_skipped());
  EXPECT_FALSE(accelerator.split_batches());
  EXPECT_EQ(accelerator.dispatch_batches(), std::nullopt);
  EXPECT_TRUE(accelerator.even_batches());
  EXPECT_FALSE(accelerator.use_seedable_sampler());
  EXPECT_FALSE(accelerator.non_blocking());
}

TEST(AcceleratorOptions, ApplyToPreparedLoaders) {
  auto accelerator = alone(with_data(
      {.split_batches = true,
       .dispatch_batches = false,
       .even_batches = false,
       .use_seedable_sampler = true,
       .data_seed = 5,
       .non_blocking = true}));
  EXPECT_TRUE(accelerator.split_batches());
  EXPECT_EQ(accelerator.dispatch_batches(), false);
  EXPECT_FALSE(accelerator.even_batches());
  EXPECT_TRUE(accelerator.use_seedable_sampler());
  EXPECT_TRUE(accelerator.non_blocking());

  DataLoader loader(Counting{6}, {.batch_size = 2, .shuffle = true});
  DataLoader same(Counting{6}, {.batch_size = 2, .shuffle = true, .seed = 5});
  accelerator.prepare(loader, same);
  EXPECT_EQ(read_all(loader), read_all(same));
  accelerator.set_even_batches(true);
  EXPECT_TRUE(loader.even_batches());
}

TEST(AcceleratorOptions, SplitBatchesIsForwarded) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator(PartialState(group), {.split_batches = true});
    DataLoader loader(Counting{8}, {.batch_size = 4});
    accelerator.prepare(loader);

    EXPECT_EQ(loader.size(), 2);
    EXPECT_EQ(read_all(loader).front().size(), 2);
  });
}

TEST(Accelerator, KnowsItsRankAndDevice) {
  run_on_ranks(3, quick(Backend::shm), [](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    const int rank = group.rank();
    EXPECT_EQ(accelerator.num_processes(), 3);
    EXPECT_EQ(accelerator.process_index(), rank);
    EXPECT_EQ(accelerator.is_main_process(), rank == 0);
    EXPECT_EQ(accelerator.is_last_process(), rank == 2);
    EXPECT_EQ(accelerator.device(), c10::Device(c10::kCPU));
    EXPECT_TRUE(accelerator.use_distributed());
    EXPECT_FALSE(accelerator.multi_device());
    EXPECT_EQ(accelerator.distributed_type(), DistributedType::multi_cpu);

    int calls = 0;
    const auto count = [&] { ++calls; };
    accelerator.on_main_process(count)();
    accelerator.on_last_process(count)();
    accelerator.on_process(1, count)();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(
        accelerator.split_between_processes(std::vector<int>{1, 2, 3, 4})
            .size(),
        rank == 0 ? 2U : 1U);
    {
      const auto order = accelerator.main_process_first();
    }
    EXPECT_EQ(
        accelerator.reduce(at::ones({2}), Reduction::sum, 2.0)[0].item<float>(),
        6);
    EXPECT_EQ(accelerator.gather(at::ones({rank + 1})).size(0), 6);
    EXPECT_EQ(
        accelerator.pad_across_processes(at::ones({rank + 1})).size(0), 3);
    accelerator.wait_for_everyone();
  });
}

TEST(Accelerator, SettersChangeTheOptions) {
  auto accelerator = alone();
  accelerator.set_sync_gradients(false);
  EXPECT_FALSE(accelerator.sync_gradients());
  accelerator.set_gradient_accumulation_steps(3);
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 3);
  accelerator.set_even_batches(false);
  EXPECT_FALSE(accelerator.even_batches());
}

TEST(Accelerator, UnwrapsToTheSameObject) {
  auto accelerator = alone();
  torch::nn::Linear model(2, 2);
  accelerator.prepare(model);
  EXPECT_EQ(&accelerator.unwrap_model(model), &model);
}

TEST(Accelerator, DoesNotReduceGradientsInEvaluationMode) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Net net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare_model(*net, {.evaluation_mode = true});

    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));

    Net reference = make_net();
    net_loss(reference, batch_of(group.rank(), 0)).backward();
    EXPECT_TRUE(
        at::equal(net->first->weight.grad(), reference->first->weight.grad()));
  });
}

TEST(Accelerator, TrainsParametersWithoutAModule) {
  run_on_ranks(3, quick(Backend::shm), [](Group& group) {
    const auto weight =
        at::full({2}, group.rank() + 1.0).set_requires_grad(true);
    const auto frozen = at::full({2}, group.rank() + 1.0);
    const auto buffer = at::full({2}, group.rank() + 1.0);
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare_parameters(
        {"weight", "frozen"}, {weight, frozen}, {buffer});
    for (const auto& tensor : {weight, frozen, buffer}) {
      EXPECT_EQ(tensor[0].item<float>(), 1);
    }

    accelerator.backward(weight.sum().mul(group.rank()));

    EXPECT_EQ(weight.grad()[0].item<float>(), 1);
  });
}

TEST(Accelerator, FreeMemoryReleasesPreparedModels) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Net net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));
    at::Tensor tensor = at::ones({3});

    accelerator.free_memory(tensor);
    EXPECT_FALSE(tensor.defined());
    net->zero_grad();
    net_loss(net, batch_of(group.rank(), 0)).backward();

    Net reference = make_net();
    net_loss(reference, batch_of(group.rank(), 0)).backward();
    EXPECT_TRUE(
        at::equal(net->first->weight.grad(), reference->first->weight.grad()));
    accelerator.clear();
    accelerator.prepare(net);
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));
  });
}

TEST(Accelerator, EndTrainingLeavesTheProcessGroup) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Net net = make_net();
    Accelerator accelerator{PartialState(group), {}};
    accelerator.prepare(net);
    accelerator.backward(net_loss(net, batch_of(group.rank(), 0)));

    accelerator.end_training();

    EXPECT_THROW(accelerator.wait_for_everyone(), Error);
  });
}

TEST(Accelerator, SkipsFirstBatches) {
  auto accelerator = alone();
  DataLoader loader(Counting{6}, {.batch_size = 2});
  accelerator.prepare(loader);

  auto rest = accelerator.skip_first_batches(loader, 2);

  EXPECT_EQ(read_all(rest), (std::vector<std::vector<std::int64_t>>{{4, 5}}));
}

TEST(Accelerator, WritesTheProfileToTheGivenFolder) {
  const std::filesystem::path folder = fresh_folder();
  AcceleratorOptions options;
  options.profile_kwargs.output_trace_dir = folder.string();
  const auto accelerator = alone(options);
  {
    const auto profiler = accelerator.profile();
    static_cast<void>(at::ones({2}).add(1));
  }

  EXPECT_TRUE(std::filesystem::exists(folder / "profile_0.json"));
}

TEST(Accelerator, ClipsValues) {
  auto accelerator = alone();
  const auto weight = at::ones({2}).set_requires_grad(true);
  accelerator.backward(weight.mul(at::tensor({3.0F, -0.5F})).sum());

  accelerator.clip_grad_value_({weight}, 1);

  EXPECT_TRUE(at::equal(weight.grad(), at::tensor({1.0F, -0.5F})));
}

TEST(Accelerator, ExplainsTheStepOfAPreparedScheduler) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    Net net = make_net();
    SGD optimizer(net->parameters(), 1.0);
    StepLR scheduler(optimizer, {.step_size = 1, .gamma = 0.1});
    AcceleratorOptions options;
    options.step_scheduler_with_optimizer = group.rank() == 0;
    Accelerator accelerator(PartialState(group), options);
    if (group.rank() == 0) {
      testing::internal::CaptureStderr();
    }
    group.barrier();
    accelerator.prepare(scheduler);
    group.barrier();
    if (group.rank() == 0) {
      EXPECT_EQ(
          testing::internal::GetCapturedStderr(),
          "note: prepare(scheduler): each optimizer step advances the "
          "scheduler "
          "by 2 steps, one per process (with XLA, one per device); to advance "
          "it by only one step, set "
          "`scheduler_unit = SchedulerUnit::per_optimizer_step`\n");
    }

    scheduler.step();

    // The scheduler takes one step per process, or only one step.
    EXPECT_NEAR(
        scheduler.get_last_lr()[0], group.rank() == 0 ? 0.01 : 0.1, 1e-9);
  });
}

at::ScalarType matmul_type() {
  return at::ones({2, 2}).matmul(at::ones({2, 2})).scalar_type();
}

TEST(ThreadAutocast, LastsFromPrepareToFreeMemory) {
  torch::nn::Linear model(2, 2);
  {
    Accelerator accelerator(
        PartialState(Group()), {.mixed_precision = Precision::bf16});
    EXPECT_EQ(matmul_type(), at::kFloat);
    accelerator.prepare(model);
    EXPECT_EQ(matmul_type(), at::kBFloat16);
    accelerator.backward(model(at::ones({1, 2})).sum());
    EXPECT_EQ(model->weight.grad().scalar_type(), at::kFloat);

    accelerator.free_memory();
    EXPECT_EQ(matmul_type(), at::kFloat);
    accelerator.prepare(model);
    EXPECT_EQ(matmul_type(), at::kBFloat16);
  }
  EXPECT_EQ(matmul_type(), at::kFloat);
}

TEST(ThreadAutocast, BelongsToOneAcceleratorAtATime) {
  torch::nn::Linear model(2, 2);
  Accelerator first(
      PartialState(Group()), {.mixed_precision = Precision::bf16});
  first.prepare(model);
  Accelerator second(
      PartialState(Group()), {.mixed_precision = Precision::bf16});

  EXPECT_EQ(
      message_of<StateError>([&] { second.prepare(model); }),
      "another Accelerator already keeps autocast enabled");
}

TEST(ThreadAutocast, RejectsABackwardInAnotherThread) {
  torch::nn::Linear model(2, 2);
  Accelerator accelerator(
      PartialState(Group()), {.mixed_precision = Precision::bf16});
  accelerator.prepare(model);
  std::string message;

  std::thread([&] {
    message = message_of<StateError>(
        [&] { accelerator.backward(model(at::ones({1, 2})).sum()); });
  }).join();

  EXPECT_EQ(
      message,
      "autocast is enabled only in the thread that called prepare, but "
      "backward was called in another thread");
}

TEST(Fp16, IsRejectedOnACpu) {
  EXPECT_THROW(
      Accelerator(PartialState(Group()), {.mixed_precision = Precision::fp16}),
      UnsupportedError);
}

}  // namespace
}  // namespace accelerate
