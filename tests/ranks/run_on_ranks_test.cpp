// SPDX-License-Identifier: Apache-2.0
#include "support/run_on_ranks.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

TEST(RunOnRanks, GivesEachThreadARankOfOneGroup) {
  std::atomic<int> ranks = 0;

  run_on_ranks(3, quick(Backend::fake), [&](Group& group) {
    EXPECT_EQ(group.size(), 3);
    ranks += 1 << group.rank();
    group.barrier();
  });

  EXPECT_EQ(ranks, 0b111);
}

TEST(RunOnRanks, RethrowsWithTheRank) {
  const auto text = message_of<std::runtime_error>([] {
    run_on_ranks(3, quick(Backend::fake), [](Group& group) {
      if (group.rank() == 1) {
        throw ArgumentError("`lr` is -1", "pass a positive number");
      }
    });
  });

  EXPECT_EQ(text, "rank 1: `lr` is -1\n");
}

TEST(RunOnRanks, RethrowsTheExceptionOfEachRank) {
  const auto text = message_of<std::runtime_error>([] {
    run_on_ranks(3, quick(Backend::fake), [](Group& group) {
      throw std::runtime_error("no " + std::to_string(group.rank() + 7));
    });
  });

  for (const char* line : {"rank 0: no 7\n", "rank 1: no 8\n"}) {
    EXPECT_THAT(text, testing::HasSubstr(line));
  }
  EXPECT_THAT(text, testing::HasSubstr("rank 2: no 9\n"));
}

TEST(RunOnRanks, CatchesValuesThatAreNotExceptions) {
  const auto text = message_of<std::runtime_error>([] {
    run_on_ranks(2, quick(Backend::fake), [](Group& group) {
      if (group.rank() == 0) {
        throw 1;  // NOLINT: a careless test may do this.
      }
    });
  });

  EXPECT_EQ(
      text, "rank 0: an exception that does not derive from std::exception\n");
}

TEST(RunOnRanks, NamesTheRanksThatHang) {
  GroupOptions options = quick(Backend::fake);
  options.timeout = std::chrono::milliseconds(100);

  const auto text = message_of<std::runtime_error>([&] {
    std::atomic<bool> done = false;
    run_on_ranks(2, options, [&](Group& group) {
      if (group.rank() == 0) {
        try {
          group.barrier();
        } catch (...) {
          done = true;
          done.notify_all();
          throw;
        }
      }
      done.wait(false);
    });
  });

  EXPECT_THAT(
      text,
      testing::HasSubstr(
          "rank 0: wait_for_everyone #1: rank 1 did not reach this call within "
          "100 ms; rank 0 stopped waiting\n"));
}

}  // namespace
}  // namespace accelerate
