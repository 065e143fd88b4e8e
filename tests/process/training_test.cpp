// SPDX-License-Identifier: Apache-2.0
// Training on real processes: the same result as with one process, and memory
// that does not grow.
#include <sstream>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "support/run_processes.h"
#include "support/training_backends.h"

namespace accelerate {
namespace {

// The number after `name` in the output.
double number_after(const ProcessResult& result, const std::string& name) {
  std::istringstream words(result.output);
  for (std::string word; words >> word;) {
    double number = 0;
    if (word == name && words >> number) {
      return number;
    }
  }
  ADD_FAILURE() << "no `" << name << "` in: " << result.output;
  return 0;
}

std::vector<ProcessResult> train(
    int processes, const std::vector<std::string>& arguments) {
  const auto results =
      run_processes(processes, test_program_path(kTrainingWorker), arguments);
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
  }
  return results;
}

using Combination = std::tuple<int, std::string>;

class TrainingWithProcesses : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override { ACCELERATE_NEEDS_BACKEND(std::get<1>(GetParam())); }
};

// Tests SGD and AdamW from LibTorch and from this library, with and without
// gradient accumulation.
TEST_P(TrainingWithProcesses, MatchesOneProcess) {
  const auto [processes, backend] = GetParam();

  const auto results = train(processes, {"matches_one_process", backend});

  for (const ProcessResult& result : results) {
    std::istringstream lines(result.output);
    int combinations = 0;
    std::string optimizer;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int micro = 0;
      double rows = 1;
      double sums = 1;
      if (!(words >> optimizer >> micro >> rows >> sums)) {
        continue;  // The line is a warning.
      }
      ++combinations;
      // One forward pass over all rows; its sums differ by a few rounding
      // errors.
      EXPECT_LE(rows, 1e-6) << line;
      // The same sums as in distributed training. Over shared memory, the order
      // is the same, too.
      EXPECT_LE(sums, backend == "shm" ? 0 : 1e-6) << line;
    }
    EXPECT_EQ(combinations, 8) << result.output;
  }
}

// Uneven data, two models, and bf16 enabled by `prepare`.
TEST_P(TrainingWithProcesses, MatchesOneProcessInHarderCases) {
  const auto [processes, backend] = GetParam();

  const auto results = train(processes, {"matches_one_process_in", backend});

  for (const ProcessResult& result : results) {
    for (const std::string optimizer : {"TorchSGD", "AdamW"}) {
      EXPECT_LE(number_after(result, "joined_" + optimizer), 1e-6);
      for (const std::string micro : {"_1", "_3"}) {
        for (const std::string name : {"uneven_", "two_models_", "bf16_"}) {
          EXPECT_LE(number_after(result, name + optimizer + micro), 1e-6)
              << name << optimizer << micro;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes,
    TrainingWithProcesses,
    testing::Combine(
        testing::Values(2, 4), testing::ValuesIn(kTrainingBackends)),
    [](const auto& test) {
      return std::get<1>(test.param) + std::to_string(std::get<0>(test.param));
    });

class TrainingMemory : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ACCELERATE_NEEDS_BACKEND(GetParam()); }
};

// Measured: 4 KiB over shared memory; 0.9 MiB over Gloo, in LibTorch itself.
TEST_P(TrainingMemory, DoesNotGrowOverAThousandSteps) {
  for (const auto& result : train(2, {"memory_of_steps", GetParam()})) {
    EXPECT_LT(number_after(result, "grew"), GetParam() == "shm" ? 512 : 2048);
  }
}

// Each cycle has 4 MiB of parameters, 4 MiB of gradients and 8 MiB of optimizer
// state: leaking one of them in every cycle would exceed this limit.
TEST_P(TrainingMemory, DoesNotGrowOverAHundredPreparedModels) {
  for (const auto& result : train(2, {"memory_of_prepare", GetParam()})) {
    EXPECT_LT(number_after(result, "grew"), 64 * 1024);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes,
    TrainingMemory,
    testing::ValuesIn(kTrainingBackends),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accelerate
