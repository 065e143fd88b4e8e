// SPDX-License-Identifier: Apache-2.0
// Starts ranks under mpirun and checks their output.
#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "process/mpi_ranks.h"

namespace {

std::int64_t available_gib() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kib = 0;
  while (file >> word) {
    if (word == "MemAvailable:") {
      file >> kib;
    }
  }
  return kib >> 20;
}

TEST_F(UnderMpirun, SuitePassesWithTwoRanks) {
  expect_ended(run_ranks(2, "mpi_suite", 240), true, 240);
}

TEST_F(UnderMpirun, SuitePassesWithThreeRanks) {
  expect_ended(run_ranks(3, "mpi_suite", 240), true, 240);
}

TEST_F(UnderMpirun, LateRanksAreNamedAndTheGroupIsUnusable) {
  const auto outcome = run_ranks(3, "mpi_faults late");

  const std::string reason =
      "ALLREDUCE #2: ranks 1, 2 did not reach this call within 300 ms; rank 0 "
      "stopped waiting";
  expect_line(outcome, "0: DistributedError: " + reason);
  expect_line(
      outcome,
      "0: DistributedError: this group of 3 ranks is unusable after an "
      "error: " +
          reason);
  for (const char* rank : {"0", "1", "2"}) {
    expect_line(outcome, std::string(rank) + ": healthy group works");
  }
  // Not finalized, because a request of rank 0 never completes.
  expect_ended(outcome, false, 20);
}

TEST_F(UnderMpirun, DifferentLengthsAreAnError) {
  const auto outcome = run_ranks(2, "mpi_faults mismatch");

  for (const std::string rank : {"0", "1"}) {
    expect_line(
        outcome,
        rank +
            ": MismatchError: ALLREDUCE #1: the ranks made different calls"
            "|  rank 1: ALLREDUCE sum of Float, 120000 bytes"
            "|  rank 0: ALLREDUCE sum of Float, 80000 bytes");
  }
  expect_ended(outcome, true, 20);
}

TEST_F(UnderMpirun, ARankThatExitsWith0IsReportedImmediately) {
  const auto outcome = run_ranks(3, "mpi_faults exit_with_0");

  const std::string text =
      ": DistributedError: ALLREDUCE #2: rank 0 lost the connection to rank 1: "
      "the process "
      "exited "
      "or destroyed its process group";
  expect_line(outcome, "0" + text);
  expect_ended(outcome, false, 20);
}

TEST_F(UnderMpirun, ARankThatExitsWith3EndsTheJob) {
  const auto outcome = run_ranks(3, "mpi_faults exit_with_3");

  EXPECT_TRUE(outcome.status == 3 || outcome.status == 5) << outcome.status;
  expect_ended(outcome, false, 20);
}

TEST_F(UnderMpirun, AKilledRankEndsTheJob) {
  const auto outcome = run_ranks(3, "mpi_faults killed");

  EXPECT_EQ(outcome.status, 128 + 9) << outcome.output;
  expect_ended(outcome, false, 20);
}

TEST_F(UnderMpirun, AnExceptionDoesNotWaitForACollective) {
  const auto outcome = run_ranks(2, "mpi_faults unwinding");

  expect_line(outcome, "1: an error of the user");
  expect_ended(outcome, false, 20);
}

TEST_F(UnderMpirun, AWrongWorldSizeIsReported) {
  const auto outcome = run_ranks(2, "mpi_faults wrong_world");

  expect_line(
      outcome,
      "1: ConfigError: this is process 1 of 4, but MPI reports rank 1 of 2");
  expect_ended(outcome, true, 20);
}

TEST_F(UnderMpirun, AMissingMemberIsNamed) {
  expect_line(
      run_ranks(2, "mpi_faults missing_member"),
      "0: DistributedError: creation of an MPI process group #1: rank 1 did "
      "not "
      "reach this call within 300 ms; rank 0 stopped waiting");
}

TEST_F(UnderMpirun, AProgramMayInitialiseMpiItself) {
  const auto outcome = run_ranks(2, "mpi_faults own_mpi");

  expect_line(
      outcome,
      "0: StateError: MPI_Finalize was already called in this process");
  expect_ended(outcome, true, 20);
}

TEST_F(UnderMpirun, MpiWithoutThreadsIsRejected) {
  const auto outcome = run_ranks(2, "mpi_faults own_mpi_single");

  expect_line(
      outcome,
      "0: UnsupportedError: MPI was initialized with MPI_THREAD_SINGLE, but "
      "the `mpi` backend needs MPI_THREAD_SERIALIZED or higher");
  expect_ended(outcome, true, 20);
}

TEST_F(UnderMpirun, GroupsThatAreNeverDestroyedDoNotBlockTheExit) {
  expect_ended(run_ranks(3, "mpi_faults never_destroyed"), true, 20);
}

TEST_F(UnderMpirun, TensorsMayBeLargerThanIntMax) {
  if (available_gib() < 8) {
    GTEST_SKIP() << "needs 8 GiB of free memory";
  }
  const auto outcome = run_ranks(2, "mpi_faults huge", 200);

  expect_line(outcome, "1: the huge tensor arrived");
  expect_ended(outcome, true, 200);
}

}  // namespace
