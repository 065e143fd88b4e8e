// SPDX-License-Identifier: Apache-2.0
// Faults under mpirun, through `Group`: checks the message of every survivor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process/mpi_ranks.h"

namespace {

using testing::ContainsRegex;

class GroupUnderMpirun : public UnderMpirun {
 protected:
  void expect_match(const Outcome& outcome, const std::string& line) {
    EXPECT_THAT(outcome.output, ContainsRegex(line + "\n"));
  }

  // Rank 1 has died or is stopped; ranks 0 and 2 report it, and their group is
  // unusable.
  void expect_survivors(const Outcome& outcome, const std::string& error) {
    for (const std::string rank : {"0", "2"}) {
      const std::string reason = "reduce #[0-9]+: " + error;
      std::string message = reason;
      message.replace(message.find("<rank>"), 6, rank);
      expect_match(outcome, rank + ": call: DistributedError: " + message);
      expect_match(
          outcome,
          rank +
              ": then: DistributedError: this group of 3 ranks is unusable "
              "after an error: " +
              message);
    }
    expect_ended(outcome, false, 60);
  }
};

constexpr const char* kLost =
    "rank <rank> lost the connection to rank 1: the process exited or "
    "destroyed its process "
    "group";
constexpr const char* kLate =
    "rank 1 did not reach this call within 5 s; rank <rank> stopped waiting";

TEST_F(GroupUnderMpirun, DifferentCallsThrowATableOnEveryRank) {
  const auto outcome = run_ranks(3, "mpi_group_faults different_calls");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(
        outcome,
        rank +
            ": call: MismatchError: the ranks are in different collective "
            "calls |"
            "  ranks 0, 2: reduce #1 of Float[2, 3] (sum) |"
            "  rank 1: gather #1 of Float[2, 3]");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_ended(outcome, true, 60);
}

TEST_F(GroupUnderMpirun, DifferentShapesThrowATableOnEveryRank) {
  const auto outcome = run_ranks(3, "mpi_group_faults different_shapes");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(
        outcome,
        rank +
            ": call: MismatchError: gather #1: the ranks' tensors differ in "
            "dimension 1 |"
            "  ranks 0, 2: Float[8, 128] |"
            "  rank 1: Float[8, 96]");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_ended(outcome, true, 60);
}

// The rank is late enough for many polls and a warning.
TEST_F(GroupUnderMpirun, WaitsForALateRank) {
  const auto outcome = run_ranks(3, "mpi_group_faults late");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(outcome, rank + ": call: ok");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_match(
      outcome,
      "warning: backward #0: rank 0 has waited 500 ms for rank 1; the timeout "
      "is 60 s");
  expect_ended(outcome, true, 60);
}

TEST_F(GroupUnderMpirun, EveryRankReportsAStoppedRank) {
  expect_survivors(run_ranks(3, "mpi_group_faults stopped"), kLate);
}

TEST_F(GroupUnderMpirun, EveryRankReportsARankStoppedInACollective) {
  expect_survivors(run_ranks(3, "mpi_group_faults stopped_inside"), kLate);
}

TEST_F(GroupUnderMpirun, EveryRankReportsAKilledRank) {
  expect_survivors(run_ranks(3, "mpi_group_faults killed"), kLost);
}

TEST_F(GroupUnderMpirun, EveryRankReportsARankKilledInACollective) {
  expect_survivors(run_ranks(3, "mpi_group_faults killed_inside"), kLost);
}

}  // namespace
