// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/launchers.h"
#include "accelerate/operations.h"
#include "accelerate/partial_state.h"
#include "launchers/notebook_processes.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

void expect_world(int processes, const std::string& word) {
  const PartialState state;
  const auto all = gather_object({Json(state.process_index())});
  if (all.size() != static_cast<std::size_t>(processes) || word != "seven") {
    throw std::runtime_error(Json(all).dump());
  }
}

TEST(NotebookLauncher, PassesArgumentsToEveryProcess) {
  EXPECT_NO_THROW(notebook_launcher(
      expect_world, std::tuple(3, "seven"), {.num_processes = 3}));
}

TEST(NotebookLauncher, RunsTwiceAndAfterAFailure) {
  EXPECT_THROW(
      notebook_launcher([] { ::_exit(3); }, {.num_processes = 2}),
      DistributedError);
  EXPECT_NO_THROW(notebook_launcher(
      expect_world, std::tuple(2, "seven"), {.num_processes = 2}));
  EXPECT_NO_THROW(notebook_launcher(
      expect_world, std::tuple(1, "seven"), {.num_processes = 1}));
}

TEST(NotebookLauncher, ReportsTheRankThatFailedFirstAndItsError) {
  EXPECT_EQ(
      message_of<DistributedError>([] {
        notebook_launcher(
            [](double rate) {
              const PartialState state;
              if (state.process_index() == 1) {
                throw ArgumentError(
                    "`lr` is " + std::to_string(static_cast<int>(rate)));
              }
              state.wait_for_everyone();
            },
            std::tuple(-1.0),
            {.num_processes = 2});
      }),
      "rank 1 failed first (exit code 2); the other rank was stopped\n"
      "  rank 1 threw: `lr` is -1");
}

TEST(NotebookLauncher, ReportsTheSignalThatKilledAWorker) {
  EXPECT_EQ(
      message_of<DistributedError>([] {
        notebook_launcher([] { ::raise(SIGKILL); }, {.num_processes = 1});
      }),
      "rank 0 failed first (killed by signal 9 (KILL))");
}

TEST(NotebookLauncher, PassesThePrecisionToTheWorkers) {
  EXPECT_NO_THROW(notebook_launcher(
      [] {
        if (std::string(::getenv("ACCELERATE_MIXED_PRECISION")) != "bf16") {
          throw std::runtime_error("no bf16");
        }
      },
      {.num_processes = 1, .mixed_precision = "bf16"}));
}

TEST(NotebookLauncher, RejectsInvalidOptions) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { notebook_launcher([] {}, {.num_processes = 0}); }),
      "num_processes is 0");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { notebook_launcher([] {}, {.mixed_precision = "f16"}); }),
      "mixed_precision is `f16`, but must be one of no, fp16, bf16");
}

TEST(NotebookLauncher, RefusesFp16WithoutAGpuForEachProcess) {
  // More GPUs than any machine has.
  EXPECT_THAT(
      message_of<UnsupportedError>([] {
        notebook_launcher(
            [] {}, {.num_processes = 4096, .mixed_precision = "fp16"});
      }),
      HasSubstr("`fp16` needs one GPU per process, but this run has 4096 "
                "processes and "));
}

TEST(NotebookLauncher, NeedsAProcessWithoutThreads) {
  std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::yield();
    }
  });

  EXPECT_EQ(
      message_of<StateError>(
          [] { notebook_launcher([] {}, {.num_processes = 2}); }),
      "this process has 2 threads, so it cannot be forked safely");
}

TEST(NotebookProcesses, AreOnePerGpuOrPerFourCpus) {
  EXPECT_EQ(choose_processes(std::nullopt, 2, 16).count, 2);
  EXPECT_FALSE(choose_processes(std::nullopt, 2, 16).cpu);
  EXPECT_EQ(
      choose_processes(std::nullopt, 0, 11).notice,
      "training on the CPU with 2 processes (11 CPUs)");
  EXPECT_EQ(choose_processes(std::nullopt, 0, 2).count, 1);
  EXPECT_EQ(choose_processes(std::nullopt, 0, 64).count, 8);
  EXPECT_TRUE(choose_processes(3, 0, 16).cpu);
  EXPECT_EQ(choose_processes(3, 0, 16).notice, "");
  EXPECT_FALSE(choose_processes(2, 2, 16).cpu);
  EXPECT_EQ(choose_processes(2, 2, 16).notice, "");
}

TEST(NotebookProcesses, ReportTooFewGpus) {
  EXPECT_TRUE(choose_processes(3, 2, 16).cpu);
  EXPECT_EQ(
      choose_processes(3, 2, 16).notice,
      "training on the CPU: 3 processes were requested, but there are 2 GPUs");
  EXPECT_EQ(
      choose_processes(2, 1, 16).notice,
      "training on the CPU: 2 processes were requested, but there is 1 GPU");
}

TEST(NotebookProcesses, CountsGpusWithoutTheDriver) {
  const std::filesystem::path folder = fresh_folder();
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) {
    std::ofstream(folder / name) << "";
  }
  using Variables = std::map<std::string, std::string>;
  const auto count = [&](const char* visible) {
    const Variables variables = {{"CUDA_VISIBLE_DEVICES", visible}};
    return count_gpus(Environment(variables), folder);
  };

  EXPECT_EQ(count_gpus(Environment(), folder), 2);
  EXPECT_EQ(count("1"), 1);
  EXPECT_EQ(count("0,1,2"), 2);
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("-1"), 0);
  const Variables cpu = {{"ACCELERATE_USE_CPU", "1"}};
  EXPECT_EQ(count_gpus(Environment(cpu), folder), 0);
}

}  // namespace
}  // namespace accelerate
