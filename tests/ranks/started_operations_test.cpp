// SPDX-License-Identifier: Apache-2.0
// Tests asynchronous operations with every backend.
#include <latch>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "comm/group_call.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

class StartedOperations : public testing::TestWithParam<Backend> {};

// Rank r has [r, r + 1, …].
at::Tensor counting_from_rank(const Group& group, std::int64_t count) {
  return at::arange(count, at::kFloat).add_(group.rank());
}

TEST_P(StartedOperations, AllReduceInPlace) {
  run_on_ranks(3, quick(GetParam()), [](Group& group) {
    const at::Tensor sum = counting_from_rank(group, 5);
    const at::Tensor mean = counting_from_rank(group, 5);
    const at::Tensor any = at::full({2}, group.rank() == 1, at::kBool);

    Pending first = group.start_all_reduce(sum);
    Pending second = group.start_all_reduce(mean, Reduction::mean);
    Pending third = group.start_all_reduce(any);
    third.wait();
    second.wait();
    first.wait();
    first.wait();  // The second wait does nothing.

    EXPECT_TRUE(sum.equal(at::arange(5, at::kFloat) * 3 + 3));
    EXPECT_TRUE(mean.allclose(at::arange(5, at::kFloat) + 1));
    EXPECT_TRUE(any.all().item<bool>());
  });
}

TEST_P(StartedOperations, ReduceScatterGivesEachRankItsPart) {
  run_on_ranks(3, quick(GetParam()), [](Group& group) {
    const at::Tensor input = counting_from_rank(group, 12).view({6, 2});
    const at::Tensor sum = at::empty({2, 2});
    const at::Tensor mean = at::empty({4});

    Pending first = group.start_reduce_scatter(sum, input);
    Pending second = group.start_reduce_scatter(mean, input, Reduction::mean);
    first.wait();
    second.wait();

    const at::Tensor expected =
        (at::arange(12, at::kFloat) * 3 + 3).narrow(0, 4 * group.rank(), 4);
    EXPECT_TRUE(sum.view({-1}).equal(expected));
    EXPECT_TRUE(mean.allclose(expected / 3));
  });
}

TEST_P(StartedOperations, AllGatherFromAPartOfItsOutput) {
  run_on_ranks(3, quick(GetParam()), [](Group& group) {
    const at::Tensor all = at::zeros({3, 4}, at::kBFloat16);
    const at::Tensor own = all.narrow(0, group.rank(), 1);
    own.fill_(group.rank() + 1);

    group.start_all_gather(all, own).wait();

    const at::Tensor rows =
        at::arange(1, 4, at::kFloat).view({3, 1}).expand({3, 4});
    EXPECT_TRUE(all.to(at::kFloat).equal(rows));
  });
}

TEST_P(StartedOperations, BroadcastInPlace) {
  run_on_ranks(3, quick(GetParam()), [](Group& group) {
    const at::Tensor tensor = counting_from_rank(group, 4).to(at::kLong);

    group.start_broadcast(tensor, /*from=*/2).wait();

    EXPECT_TRUE(tensor.equal(at::arange(4, at::kLong) + 2));
  });
}

TEST_P(StartedOperations, NothingIsTransferredForEmptyTensors) {
  run_on_ranks(2, quick(GetParam()), [](Group& group) {
    const at::Tensor none = at::empty({0, 3});

    group.start_all_reduce(none).wait();
    group.start_broadcast(none).wait();
    group.start_all_gather(at::empty({0}), at::empty({0})).wait();
    group.start_reduce_scatter(at::empty({0}), at::empty({0})).wait();

    EXPECT_EQ(group.reduce({at::ones({1})})[0].item<float>(), 2);
  });
}

TEST_P(StartedOperations, DifferentCallsThrowOnEveryRankAndLeaveItUsable) {
  run_on_ranks(2, quick(GetParam()), [](Group& group) {
    const at::Tensor tensor = at::ones({2});

    const std::string text = message_of<MismatchError>([&] {
      if (group.rank() == 0) {
        static_cast<void>(group.start_all_reduce(tensor));
      } else {
        static_cast<void>(group.start_broadcast(tensor));
      }
    });

    EXPECT_EQ(
        text,
        "the ranks are in different collective calls\n"
        "  rank 0: start_all_reduce #1 of Float[2] (sum)\n"
        "  rank 1: start_broadcast #1 of Float[2] (from 0)");
    group.start_all_reduce(tensor).wait();
    EXPECT_TRUE(tensor.equal(at::full({2}, 2.0F)));
  });
}

TEST_P(StartedOperations, ARankThatExitsIsNamedByWait) {
  std::latch started(2);
  run_on_ranks(2, quick(GetParam()), [&](Group& group) {
    group.barrier();
    GroupCall call(group, "backward");
    started.arrive_and_wait();
    if (group.rank() == 1) {
      return;
    }
    Pending pending = call.all_reduce(at::ones({1 << 20}), Reduction::sum);

    const std::string text =
        message_of<DistributedError>([&] { pending.wait(); });

    EXPECT_THAT(text, testing::StartsWith("backward #0: rank 0 lost "));
    EXPECT_THAT(
        message_of<DistributedError>(
            [&] { static_cast<void>(group.start_all_reduce(at::ones({1}))); }),
        testing::StartsWith(
            "this group of 2 ranks is unusable after an error: " + text));
  });
}

TEST_P(StartedOperations, StartOnlyWhenAllRanksAreInTheSameCall) {
  run_on_ranks(2, quick(GetParam()), [&](Group& group) {
    GroupCall call(group, "backward");
    for (int step = 1; step <= 3; ++step) {
      call.begin();
      call.agree();
      EXPECT_TRUE(call.agreed());
      const at::Tensor tensor = at::full({3}, step + group.rank());
      Pending pending = call.all_reduce(tensor, Reduction::sum);
      const at::Tensor second = at::ones({1});
      call.all_reduce(second, Reduction::sum, /*overlap=*/false).wait();
      pending.wait();
      EXPECT_TRUE(tensor.equal(at::full({3}, 2 * step + 1)));
      EXPECT_EQ(second.item<float>(), 2);
    }
    // Rank 0 begins a backward pass; rank 1 is already evaluating.
    if (group.rank() == 0) {
      call.begin();
      EXPECT_THROW(call.agree(), MismatchError);
      EXPECT_FALSE(call.agreed());
      // All calls fail until the next `begin`.
      EXPECT_THROW(call.agree(), MismatchError);
    } else {
      EXPECT_THROW(
          static_cast<void>(group.gather({at::ones({1})})), MismatchError);
    }
    EXPECT_EQ(group.reduce({at::ones({1})})[0].item<float>(), 2);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    StartedOperations,
    testing::Values(Backend::shm, Backend::gloo, Backend::fake),
    [](const auto& test) { return std::string(name_of(test.param)); });

TEST(StartedOperationsOfOneRank, AreFinished) {
  const Group group;
  const at::Tensor tensor = at::arange(4, at::kFloat);
  const at::Tensor result = at::empty({2, 2});

  group.start_all_reduce(tensor, Reduction::mean).wait();
  group.start_broadcast(tensor).wait();
  group.start_all_gather(result, tensor).wait();

  EXPECT_TRUE(tensor.equal(at::arange(4, at::kFloat)));
  EXPECT_TRUE(result.view({-1}).equal(tensor));
  group.start_reduce_scatter(result.zero_(), tensor).wait();
  EXPECT_TRUE(result.view({-1}).equal(tensor));
  Pending().wait();
}

TEST(StartedOperationsOfOneRank, RejectTensorsThatCannotBeUsedInPlace) {
  const Group group;
  const at::Tensor columns = at::ones({2, 3}).t();

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(group.start_all_reduce(columns)); }),
      "start_all_reduce got a tensor of shape [3, 2] that is not contiguous");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        static_cast<void>(group.start_all_reduce(at::ones({2})._neg_view()));
      }),
      "start_all_reduce got a tensor of shape [2] that is a lazy negative");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(group.start_broadcast({})); }),
      "start_broadcast got an undefined tensor");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        static_cast<void>(
            group.start_all_gather(at::ones({4}), at::ones({3}, at::kLong)));
      }),
      "start_all_gather got Float[4] on cpu and Long[3] on cpu in a group of 1 "
      "ranks");
  EXPECT_THROW(
      static_cast<void>(
          group.start_all_reduce(at::ones({1}, at::kLong), Reduction::mean)),
      ArgumentError);
}

}  // namespace
}  // namespace accelerate
