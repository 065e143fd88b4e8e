// SPDX-License-Identifier: Apache-2.0
// An Accelerator on xla:0, as a program uses it: the environment chooses XLA,
// and the loop is the same as on the CPU.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn.h>

#include "accelerate/accelerate.h"
#include "device/xla_library.h"
#include "support/temporary_directory.h"
#include "unit/tracking/collecting_tracker.h"
#include "unit/xla/spiral.h"

namespace accelerate {
namespace {

// As many as CPU_NUM_DEVICES says.
std::int64_t num_devices() {
  return std::atoll(std::getenv("CPU_NUM_DEVICES"));
}

XlaCounts counts() {
  return open_xla_library(XLA_LIBRARY)
      .open(
          {.plugin = std::getenv("PJRT_PLUGIN_PATH"),
           .device_count = num_devices(),
           .strict = true})
      .counts();
}

enum class On { cpu, xla };

AcceleratorOptions on(On device, AcceleratorOptions options = {}) {
  PartialState::reset();
  options.cpu = device == On::cpu;
  return options;
}

// A training run of examples/base.cpp. The CPU takes the same steps as all
// devices together.
struct TrainingRun {
  explicit TrainingRun(On device, const AcceleratorOptions& options = {})
      : accelerator(on(device, options)),
        loader(
            Spiral{1600},
            {.batch_size = device == On::xla ? 25 : 25 * num_devices(),
             .shuffle = true,
             .seed = 3}),
        eval_loader(Spiral{410}, {.batch_size = 64}) {
    torch::manual_seed(42);
    model = make_spiral_model();
    optimizer.emplace(model->parameters(), 1e-2);
    accelerator.prepare(loader, eval_loader, model, *optimizer);
  }

  Tensor loss_of(const Tensor& data, const Tensor& target) {
    return at::cross_entropy_loss(model->forward(data), target);
  }

  // Trains for some steps of one epoch and adds to `losses`.
  void train(int steps) {
    for (auto& batch : loader) {
      if (steps-- == 0) {
        break;
      }
      const Tensor loss = loss_of(batch.data, batch.target);
      accelerator.backward(loss);
      optimizer->step();
      optimizer->zero_grad();
      losses.push_back(loss.detach());
    }
  }

  double accuracy() {
    const torch::NoGradGuard no_grad;
    std::int64_t correct = 0;
    std::int64_t seen = 0;
    for (auto& batch : eval_loader) {
      const auto predictions = model->forward(batch.data).argmax(1);
      const auto all =
          accelerator.gather_for_metrics(predictions.eq(batch.target));
      correct += all.sum().item<std::int64_t>();
      seen += all.size(0);
    }
    EXPECT_EQ(seen, 410);
    return static_cast<double>(correct) / static_cast<double>(seen);
  }

  Accelerator accelerator;
  DataLoader<Spiral> loader;
  DataLoader<Spiral> eval_loader;
  torch::nn::Sequential model;
  std::optional<AdamW> optimizer;
  std::vector<Tensor> losses;
};

std::vector<double> numbers(const std::vector<Tensor>& losses) {
  std::vector<double> result;
  for (const Tensor& loss : losses) {
    result.push_back(loss.item<double>());
  }
  return result;
}

void expect_near(
    const std::vector<Tensor>& xla,
    const std::vector<Tensor>& cpu,
    double tolerance = 1e-5) {
  ASSERT_EQ(xla.size(), cpu.size());
  const auto actual = numbers(xla);
  const auto expected = numbers(cpu);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "step " << i;
  }
}

// Runs `body` on the CPU and on XLA, and compares the losses.
void compare(
    const AcceleratorOptions& options,
    const std::function<void(TrainingRun&)>& body) {
  TrainingRun cpu(On::cpu, options);
  body(cpu);
  TrainingRun xla(On::xla, options);
  body(xla);
  expect_near(xla.losses, cpu.losses);
  EXPECT_EQ(counts().fallbacks, 0);
}

TEST(XlaAccelerator, ReportsItsDevice) {
  const Accelerator accelerator(on(On::xla));

  EXPECT_EQ(accelerator.device(), c10::Device("xla:0"));
  EXPECT_EQ(accelerator.distributed_type(), DistributedType::xla);
  EXPECT_EQ(name_of(accelerator.distributed_type()), "XLA");
  EXPECT_EQ(accelerator.num_processes(), 1);
}

TEST(XlaAccelerator, TrainsAsOnTheCpu) {
  TrainingRun cpu(On::cpu);
  cpu.train(100);
  TrainingRun xla(On::xla);
  const std::int64_t compiled = counts().compiled;
  xla.train(100);

  expect_near(xla.losses, cpu.losses);
  // The first step makes the optimizer's state, and the second donates it.
  EXPECT_LE(counts().compiled - compiled, 4);
  EXPECT_EQ(xla.accuracy(), cpu.accuracy());
  EXPECT_EQ(counts().fallbacks, 0);
}

TEST(XlaAccelerator, HasAsManyStepsAsProcessesOfTheSameNumberWouldHave) {
  TrainingRun xla(On::xla);

  EXPECT_EQ(xla.loader.size(), 1600 / 25 / num_devices());
  EXPECT_EQ(xla.loader.total_batch_size(), 25 * num_devices());
}

TEST(XlaAccelerator, AccumulatesClipsAndSchedules) {
  const AcceleratorOptions options{
      .gradient_accumulation_steps = 2,
      .scheduler_unit = SchedulerUnit::per_optimizer_step};

  std::int64_t compiled = 0;

  compare(options, [&compiled](TrainingRun& run) {
    StepLR scheduler(*run.optimizer, {.step_size = 5, .gamma = 0.5});
    run.accelerator.prepare(scheduler);
    for (auto& batch : run.loader) {
      const auto region = run.accelerator.accumulate();
      const Tensor loss = run.loss_of(batch.data, batch.target);
      run.accelerator.backward(loss);
      if (run.accelerator.sync_gradients()) {
        run.accelerator.clip_grad_norm_(run.model->parameters(), 0.5);
      }
      run.optimizer->step();
      scheduler.step();
      run.optimizer->zero_grad();
      run.losses.push_back(loss.detach());
      if (run.losses.size() == 6) {
        compiled = counts().compiled;
      }
    }
  });

  // A new learning rate needs no new program.
  EXPECT_EQ(counts().compiled, compiled);
}

TEST(XlaAccelerator, AdvancesSchedulersOncePerDevice) {
  TrainingRun run(On::xla);
  StepLR scheduler(*run.optimizer, {.step_size = 100});
  run.accelerator.prepare(scheduler);

  run.train(1);
  scheduler.step();

  EXPECT_EQ(scheduler.last_epoch(), num_devices());
}

// The next forward pass is recorded before the program of this step runs.
TEST(XlaAccelerator, EndsTheStepsOfALoopWithoutALoader) {
  const auto train = [](TrainingRun& run) {
    const auto data = [&run](const Tensor& tensor) {
      return tensor.to(run.accelerator.device());
    };
    torch::manual_seed(1);
    for (int step = 0; step < 20; ++step) {
      const Tensor loss =
          run.loss_of(data(at::randn({8, 2})), data(at::randint(2, {8})));
      run.accelerator.backward(loss);
      run.optimizer->step();
      run.optimizer->zero_grad();
      run.losses.push_back(loss.detach());
    }
  };
  const std::int64_t compiled = counts().compiled;
  const std::int64_t executed = counts().executed;

  compare({}, train);

  EXPECT_LE(counts().compiled - compiled, 5);
  EXPECT_LE(counts().executed - executed, 22);
}

TEST(XlaAccelerator, ReadsALossInEveryStep) {
  compare({}, [](TrainingRun& run) {
    for (auto& batch : run.loader) {
      const Tensor loss = run.loss_of(batch.data, batch.target);
      EXPECT_GT(loss.item<double>(), 0);
      run.accelerator.backward(loss);
      run.optimizer->step();
      run.optimizer->zero_grad();
      run.losses.push_back(loss.detach());
    }
  });
}

TEST(XlaAccelerator, TrainsInBf16) {
  TrainingRun cpu(On::cpu);
  cpu.train(30);
  TrainingRun xla(On::xla, {.mixed_precision = Precision::bf16});
  xla.train(30);

  expect_near(xla.losses, cpu.losses, 0.05);
  EXPECT_EQ(counts().fallbacks, 0);
  EXPECT_EQ(xla.model->parameters()[0].scalar_type(), at::kFloat);
}

TEST(XlaAccelerator, StopsEarlyOnATrigger) {
  TrainingRun xla(On::xla);

  EXPECT_FALSE(xla.accelerator.check_trigger());
  xla.accelerator.set_trigger();
  EXPECT_TRUE(xla.accelerator.check_trigger());
}

// The tracker's thread reads the loss of a step while the next is recorded.
TEST(XlaAccelerator, LogsLossesWithoutMorePrograms) {
  const auto tracker = std::make_shared<CollectingTracker>();
  TrainingRun xla(On::xla, {.log_with = {tracker}});
  xla.accelerator.init_trackers("spiral");
  const std::int64_t executed = counts().executed;
  for (auto& batch : xla.loader) {
    const Tensor loss = xla.loss_of(batch.data, batch.target);
    xla.accelerator.backward(loss);
    xla.optimizer->step();
    xla.optimizer->zero_grad();
    xla.accelerator.log({{"loss", loss}});
    xla.losses.push_back(loss.detach());
  }
  EXPECT_EQ(counts().executed - executed, xla.loader.size());
  xla.accelerator.end_training();

  const auto losses = numbers(xla.losses);
  ASSERT_EQ(tracker->logged.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(std::get<double>(tracker->logged[i].entries[0].value), losses[i]);
  }
}

std::vector<double> dropout_losses() {
  TrainingRun run(On::xla);
  set_seed(7);
  std::vector<Tensor> losses;
  const Tensor x = at::ones({4, 8}, run.accelerator.device());
  for (int step = 0; step < 3; ++step) {
    losses.push_back(at::dropout(x, 0.5, true).sum());
  }
  const Tensor all = at::rand({100}, x.options());
  losses.push_back(all.mean());
  return numbers(losses);
}

TEST(XlaAccelerator, RepeatsRandomNumbersAfterSetSeed) {
  const auto first = dropout_losses();

  EXPECT_EQ(first, dropout_losses());
  EXPECT_FALSE(first[0] == first[1] && first[1] == first[2]);
}

// Trains ten steps, saves, and trains ten more on another device.
std::vector<Tensor> resume(On first, On second, const std::string& folder) {
  TrainingRun before(first);
  before.train(10);
  before.accelerator.save_state(folder);
  TrainingRun after(second);
  after.accelerator.load_state(folder);
  after.train(10);
  std::vector<Tensor> losses = before.losses;
  losses.insert(losses.end(), after.losses.begin(), after.losses.end());
  return losses;
}

TEST(XlaAccelerator, ResumesCheckpointsOfTheCpuAndTheOtherWayRound) {
  const TemporaryDirectory folder;
  const auto at = [&folder](const char* name) {
    return (folder.path() / name).string();
  };
  const auto cpu = resume(On::cpu, On::cpu, at("cpu"));

  expect_near(resume(On::xla, On::xla, at("xla")), cpu);
  expect_near(resume(On::xla, On::cpu, at("xla_cpu")), cpu);
  expect_near(resume(On::cpu, On::xla, at("cpu_xla")), cpu);
}

}  // namespace
}  // namespace accelerate
