// SPDX-License-Identifier: Apache-2.0
// Training on real processes: the same result as in one, and memory that does
// not grow.
#include <sstream>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

// The number behind `word` in a line of the output.
double number_after(const ProcessResult& result, const std::string& word) {
  std::istringstream words(result.output);
  for (std::string each; words >> each;) {
    double number = 0;
    if (each == word && words >> number) {
      return number;
    }
  }
  ADD_FAILURE() << "no `" << word << "` in: " << result.output;
  return 0;
}

std::vector<ProcessResult> train(
    int processes, const std::vector<std::string>& words) {
  const auto results =
      run_processes(processes, beside_this_program("training_worker"), words);
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
  }
  return results;
}

using Combination = std::tuple<int, std::string>;

class TrainedByProcesses : public testing::TestWithParam<Combination> {};

// SGD and AdamW, LibTorch's and ours, with and without accumulation.
TEST_P(TrainedByProcesses, EqualsOneProcess) {
  const auto [processes, backend] = GetParam();

  const auto results = train(processes, {"equals_one_process", backend});

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
        continue;  // A warning.
      }
      ++combinations;
      // All rows in one forward: other sums, a few roundings apart.
      EXPECT_LE(rows, 1e-6) << line;
      // The same sums; in the same order over shared memory.
      EXPECT_LE(sums, backend == "shm" ? 0 : 1e-6) << line;
    }
    EXPECT_EQ(combinations, 8) << result.output;
  }
}

// Uneven data, two models, and bf16 as `prepare` switches it on.
TEST_P(TrainedByProcesses, EqualsOneProcessInHarderCases) {
  const auto [processes, backend] = GetParam();

  const auto results = train(processes, {"equals_one_process_in", backend});

  for (const ProcessResult& result : results) {
    for (const std::string optimizer : {"TheirSGD", "AdamW"}) {
      EXPECT_LE(number_after(result, "joined_" + optimizer), 1e-6);
      for (const std::string micro : {"_1", "_3"}) {
        for (const std::string what : {"uneven_", "two_models_", "bf16_"}) {
          EXPECT_LE(number_after(result, what + optimizer + micro), 1e-6)
              << what << optimizer << micro;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes,
    TrainedByProcesses,
    testing::Combine(testing::Values(2, 4), testing::Values("shm", "gloo")),
    [](const auto& test) {
      return std::get<1>(test.param) + std::to_string(std::get<0>(test.param));
    });

class MemoryOfTraining : public testing::TestWithParam<std::string> {};

// Measured 4 KiB over shared memory; 0.9 MiB over Gloo, LibTorch's own.
TEST_P(MemoryOfTraining, IsFlatOverAThousandSteps) {
  for (const auto& result : train(2, {"memory_of_steps", GetParam()})) {
    EXPECT_LT(number_after(result, "grew"), GetParam() == "shm" ? 512 : 2048);
  }
}

// Each cycle has 4 MiB of parameters, as much of gradients, and twice that of
// optimizer state: one that is kept, in a hundred, is beyond this limit.
TEST_P(MemoryOfTraining, IsFlatOverAHundredPreparedModels) {
  for (const auto& result : train(2, {"memory_of_prepare", GetParam()})) {
    EXPECT_LT(number_after(result, "grew"), 64 * 1024);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes,
    MemoryOfTraining,
    testing::Values("shm", "gloo"),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accelerate
