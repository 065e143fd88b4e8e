// SPDX-License-Identifier: Apache-2.0
// Training in which one process dies, throws or does something else: the
// others say so in time.
#include <chrono>
#include <csignal>
#include <iostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// Measured: 0.4 s. The promise is 1 s; a busy machine gets more.
constexpr double kInTime = 5;

class TrainingFaults : public testing::TestWithParam<std::string> {
 protected:
  static Processes start(
      const std::string& scenario, const std::string& argument = "") {
    return Processes(
        3,
        beside_this_program("training_worker"),
        {scenario, GetParam(), argument});
  }

  static std::vector<ProcessResult> run(
      const std::string& scenario, const std::string& argument = "") {
    return run_processes(
        3,
        beside_this_program("training_worker"),
        {scenario, GetParam(), argument});
  }

  // Kills `victim` once it has said `where`; how long the others took.
  static std::vector<ProcessResult> kill_in(
      Processes& processes, int victim, const std::string& where) {
    processes.wait_for(victim, where);
    processes.send_signal(victim, SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    for (const int rank : {0, 1, 2}) {
      if (rank != victim) {
        processes.wait_for(rank, "training: ");
      }
    }
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - killed;
    std::cout << "    killed " << where << ": " << took.count() << " s\n";
    EXPECT_LT(took.count(), kInTime);
    return let_go(processes, victim);
  }

  // The survivors wait for each other's last words.
  static std::vector<ProcessResult> let_go(Processes& processes, int victim) {
    for (const int rank : {0, 1, 2}) {
      if (rank != victim) {
        processes.wait_for(rank, "second: ");
      }
    }
    for (const int rank : {0, 1, 2}) {
      if (rank != victim) {
        processes.tell(rank, "go");
      }
    }
    return processes.wait();
  }

  // Every survivor names the rank, can end, and finds the group unusable.
  static void expect_loss_of(
      int victim, const std::vector<ProcessResult>& results) {
    const std::string call =
        "(backward|broadcast|reduce|allocate|"
        "gather_object|ALLREDUCE|BROADCAST) #[0-9]+";
    for (const ProcessResult& result : results) {
      if (result.rank == victim) {
        continue;
      }
      const std::string lost = call + ": rank " + std::to_string(result.rank) +
                               " lost rank " + std::to_string(victim) +
                               ": the process ended or destroyed its group\n";
      EXPECT_EQ(result.exit_code, 0) << describe(result);
      EXPECT_THAT(
          result.output,
          ContainsRegex(
              "training: DistributedError: " + lost +
              "hint: look for the own error of rank " + std::to_string(victim) +
              " first\n"));
      EXPECT_THAT(
          result.output,
          ContainsRegex(
              "second: DistributedError: this group of 3 ranks is unusable "
              "since " +
              lost));
    }
  }
};

TEST_P(TrainingFaults, KilledInForward) {
  auto processes = start("stops_in_forward");

  expect_loss_of(1, kill_in(processes, 1, "in forward"));
}

TEST_P(TrainingFaults, KilledInBackward) {
  auto processes = start("stops_in_backward");

  expect_loss_of(1, kill_in(processes, 1, "in backward"));
}

TEST_P(TrainingFaults, KilledInTheLoader) {
  for (const char* workers : {"0", "2"}) {
    auto processes = start("stops_in_loader", workers);

    expect_loss_of(1, kill_in(processes, 1, "in get"));
  }
}

TEST_P(TrainingFaults, KilledInALoaderThatReadsForAll) {
  auto processes = start("stops_in_loader", "dispatch");

  expect_loss_of(0, kill_in(processes, 0, "in get"));
}

TEST_P(TrainingFaults, ExceptionInOneForward) {
  auto processes = start("throws_in_forward");
  const auto results = let_go(processes, 1);

  EXPECT_EQ(results[1].exit_code, 1);
  EXPECT_EQ(results[1].output, "uncaught: no such token: 30522\n");
  expect_loss_of(1, results);
}

// The one error that others learn of without a process ending.
TEST_P(TrainingFaults, ExceptionInOneBackward) {
  const auto results = run("throws_in_backward");

  EXPECT_EQ(
      results[1].output,
      "training: my own error: no such gradient\nsecond: ok\n");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(
        results[rank].output,
        "training: PeerError: backward failed on another rank; rank " +
            std::to_string(rank) +
            " dropped the gradients of this step\nsecond: ok\n");
  }
}

TEST_P(TrainingFaults, DifferentModels) {
  for (const ProcessResult& result : run("different_models")) {
    EXPECT_EQ(result.exit_code, 0) << describe(result);
    EXPECT_EQ(
        result.output,
        "prepare: MismatchError: ranks have different models\n"
        "  parameter 0: rank 0 has weight Float[4, 3], rank 1 has weight "
        "Float[5, 3]\n"
        "  parameter 1: rank 0 has bias Float[4], rank 1 has bias Float[5]\n"
        "hint: build the model the same way on every rank, from the same "
        "options\n"
        "second: ok\n");
  }
}

TEST_P(TrainingFaults, FewerBatchesAndThenTheEnd) {
  auto processes = start("fewer_batches", "leaves");
  const auto results = let_go(processes, 1);

  EXPECT_EQ(results[1].exit_code, 0);
  expect_loss_of(1, results);
}

// Two ranks are in a backward, one is in an evaluation: all are told at once,
// and can go on.
TEST_P(TrainingFaults, FewerBatchesAndThenAnEvaluation) {
  auto processes = start("fewer_batches", "evaluates");
  const auto results = let_go(processes, -1);

  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result);
    EXPECT_THAT(
        result.output,
        ContainsRegex(
            std::string(result.rank == 1 ? "evaluation" : "training") +
            ": MismatchError: ranks are in different collective calls\n"
            "  ranks 0, 2: backward #[0-9]+\n"
            "  rank 1: gather #[0-9]+ of Float\\[2\\]\n"));
    EXPECT_THAT(result.output, HasSubstr("second: ok\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes,
    TrainingFaults,
    testing::Values("shm", "gloo"),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accelerate
