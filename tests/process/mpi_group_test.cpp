// SPDX-License-Identifier: Apache-2.0
// Faults under mpirun as a user of `Group` sees them: the message of every
// survivor.
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

  // Rank 1 is gone or silent; ranks 0 and 2 say so, and their group is over.
  void expect_survivors(const Outcome& outcome, const std::string& what) {
    for (const std::string rank : {"0", "2"}) {
      const std::string reason = "reduce #[0-9]+: " + what;
      std::string mine = reason;
      mine.replace(mine.find("<rank>"), 6, rank);
      expect_match(outcome, rank + ": call: DistributedError: " + mine);
      expect_match(
          outcome,
          rank +
              ": then: DistributedError: this group of 3 ranks is unusable "
              "since " +
              mine);
    }
    expect_ended(outcome, false, 60);
  }
};

constexpr const char* kLost =
    "rank <rank> lost rank 1: the process ended or destroyed its group";
constexpr const char* kLate =
    "rank 1 did not come within 5 s; rank <rank> stopped waiting";

TEST_F(GroupUnderMpirun, DifferentCallsAreATableOnEveryRank) {
  const auto outcome = run_ranks(3, "mpi_group_faults different_calls");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(
        outcome,
        rank +
            ": call: MismatchError: ranks are in different collective calls |"
            "  ranks 0, 2: reduce #1 of Float[2, 3] (sum) |"
            "  rank 1: gather #1 of Float[2, 3]");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_ended(outcome, true, 60);
}

TEST_F(GroupUnderMpirun, DifferentShapesAreATableOnEveryRank) {
  const auto outcome = run_ranks(3, "mpi_group_faults different_shapes");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(
        outcome,
        rank +
            ": call: MismatchError: gather #1: ranks disagree on dimension 1 |"
            "  ranks 0, 2: Float[8, 128] |"
            "  rank 1: Float[8, 96]");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_ended(outcome, true, 60);
}

// Late enough to be asked for many times, and to be warned about.
TEST_F(GroupUnderMpirun, LateRankIsWaitedFor) {
  const auto outcome = run_ranks(3, "mpi_group_faults late");

  for (const std::string rank : {"0", "1", "2"}) {
    expect_line(outcome, rank + ": call: ok");
    expect_line(outcome, rank + ": then: ok");
  }
  expect_match(
      outcome,
      "warning: backward #0: rank 0 has waited 500 ms for rank 1; it gives up "
      "after 60 s");
  expect_ended(outcome, true, 60);
}

TEST_F(GroupUnderMpirun, StoppedRankIsNamedByEachOther) {
  expect_survivors(run_ranks(3, "mpi_group_faults stopped"), kLate);
}

TEST_F(GroupUnderMpirun, RankStoppedInACollectiveIsNamedByEachOther) {
  expect_survivors(run_ranks(3, "mpi_group_faults stopped_inside"), kLate);
}

TEST_F(GroupUnderMpirun, KilledRankIsNamedByEachOther) {
  expect_survivors(run_ranks(3, "mpi_group_faults killed"), kLost);
}

TEST_F(GroupUnderMpirun, RankKilledInACollectiveIsNamedByEachOther) {
  expect_survivors(run_ranks(3, "mpi_group_faults killed_inside"), kLost);
}

}  // namespace
