// SPDX-License-Identifier: Apache-2.0
// Subgroups, mismatched calls, timeouts, and use by LibTorch's classes.
#include <latch>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "accelerate/interrupt.h"
#include "comm/group_backends.h"
#include "comm/wait_limits.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

class Groups : public testing::TestWithParam<Backend> {};
class OurBackends : public testing::TestWithParam<Backend> {};

int sum_over(const Group& group, int value) {
  return group.reduce({at::full({1}, value)})[0].item<int>();
}

TEST_P(Groups, TwoSubgroupsWorkAtTheSameTime) {
  run_on_ranks(5, quick(GetParam()), [](Group& world) {
    const auto low = world.subgroup({0, 1});
    const auto high = world.subgroup({4, 3, 2});
    ASSERT_NE(low.has_value(), high.has_value());
    const Group& own_group = low ? *low : *high;

    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(sum_over(own_group, world.rank()), low ? 1 : 9);
    }

    EXPECT_EQ(own_group.rank(), low ? world.rank() : 4 - world.rank());
    EXPECT_EQ(sum_over(world, 1), 5);
  });
}

TEST_P(Groups, SubgroupsOfSubgroups) {
  run_on_ranks(3, quick(GetParam()), [](Group& world) {
    const auto pair = world.subgroup({2, 0});
    if (pair) {
      const auto single = pair->subgroup({1});
      EXPECT_EQ(single.has_value(), world.rank() == 0);
      EXPECT_EQ(single ? single->size() : 1, 1);
      EXPECT_EQ(sum_over(*pair, world.rank()), 2);
    }
    world.barrier();
  });
}

TEST_P(Groups, RejectRanksOutsideTheGroup) {
  run_on_ranks(2, quick(GetParam()), [](Group& world) {
    EXPECT_EQ(
        message_of<ArgumentError>(
            [&] { static_cast<void>(world.subgroup({0, 2})); }),
        "subgroup: rank 2 is not in this group, which has only ranks 0 to 1");
    EXPECT_EQ(sum_over(world, 1), 2);
  });
}

TEST_P(Groups, ReportTheArgumentsThatDiffer) {
  run_on_ranks(3, quick(GetParam()), [](Group& world) {
    const at::Tensor tensor = at::ones({2});

    EXPECT_EQ(
        message_of<MismatchError>(
            [&] { world.broadcast({tensor}, world.rank() == 2 ? 1 : 0); }),
        "the ranks are in different collective calls\n"
        "  ranks 0, 1: broadcast #1 of Float[2] (from 0)\n"
        "  rank 2: broadcast #1 of Float[2] (from 1)");
    EXPECT_EQ(
        message_of<MismatchError>([&] {
          static_cast<void>(world.reduce(
              {tensor}, world.rank() == 0 ? Reduction::max : Reduction::sum));
        }),
        "the ranks are in different collective calls\n"
        "  rank 0: reduce #2 of Float[2] (max)\n"
        "  ranks 1, 2: reduce #2 of Float[2] (sum)");
    EXPECT_EQ(
        message_of<MismatchError>([&] {
          static_cast<void>(world.subgroup(
              world.rank() == 1 ? std::vector{0} : std::vector{0, 1}));
        }),
        "the ranks are in different collective calls\n"
        "  ranks 0, 2: subgroup #3 ([0, 1])\n"
        "  rank 1: subgroup #3 ([0])");
    EXPECT_EQ(sum_over(world, 1), 3);
  });
}

TEST_P(Groups, RejectAllCallsAfterAnAbort) {
  run_on_ranks(2, quick(GetParam()), [](Group& world) {
    world.barrier();
    if (world.rank() == 0) {
      world.abort();
      EXPECT_EQ(
          message_of<DistributedError>([&] { world.barrier(); }),
          "this group of 2 ranks was aborted on rank 0");
    } else {
      // Rank 0 never makes this call. Rank 0 destroys its process group when it
      // returns.
      EXPECT_THROW(world.barrier(), DistributedError);
    }
  });
}

// The warning about a late rank shows that the wait has started.
TEST_P(Groups, StopWaitingWhenAborted) {
  std::latch ended(1);
  const Group* waiting = nullptr;
  GroupOptions options = quick(GetParam());
  options.warn_after = std::chrono::milliseconds(50);
  options.warn = [&](const std::string&) { waiting->abort(); };

  run_on_ranks(2, options, [&](Group& world) {
    if (world.rank() == 1) {
      ended.wait();
      return;
    }
    waiting = &world;
    EXPECT_EQ(
        message_of<DistributedError>([&] { world.barrier(); }),
        "wait_for_everyone #1: aborted on rank 0 while waiting for rank 1");
    ended.count_down();
  });
}

TEST_P(OurBackends, StopWaitingWhenTheProcessIsInterrupted) {
  std::latch ended(1);
  GroupOptions options = quick(GetParam());
  options.warn_after = std::chrono::milliseconds(50);
  options.warn = [&](const std::string&) { interrupt_waits(); };

  run_on_ranks(2, options, [&](Group& world) {
    if (world.rank() == 1) {
      ended.wait();
      return;
    }
    EXPECT_EQ(
        message_of<InterruptedError>([&] { world.barrier(); }),
        "wait_for_everyone #1: interrupted on rank 0 while waiting for rank 1");
    EXPECT_TRUE(waits_are_interrupted());
    resume_waits();
    // The process group stays unusable.
    EXPECT_THROW(world.barrier(), DistributedError);
    ended.count_down();
  });
}

// Only rank 0 makes the call, with a timeout of 100 ms; the group's timeout is
// several seconds.
std::string error_of_lonely_reduction(
    const GroupOptions& options, const Call* call) {
  std::latch ended(1);
  std::string message;
  run_on_ranks(2, options, [&](Group& world) {
    if (world.rank() == 1) {
      ended.wait();
      return;
    }
    std::vector<at::Tensor> tensors = {at::ones({3})};
    c10d::AllreduceOptions short_timeout;
    short_timeout.timeout = std::chrono::milliseconds(100);
    std::optional<CallScope> scope;
    if (call != nullptr) {
      scope.emplace(*call);
    }
    message = message_of<DistributedError>([&] {
      GroupBackends::cpu(world).allreduce(tensors, short_timeout)->wait();
    });
    ended.count_down();
  });
  return message;
}

TEST_P(OurBackends, HonourTheTimeoutOfACall) {
  EXPECT_EQ(
      error_of_lonely_reduction(quick(GetParam()), nullptr),
      "ALLREDUCE #1: rank 1 did not reach this call within 100 ms; rank 0 "
      "stopped waiting");
}

TEST_P(OurBackends, ReportTheCallThatTheyArePartOf) {
  const Call call{"backward", 12};

  EXPECT_EQ(
      error_of_lonely_reduction(quick(GetParam()), &call),
      "backward #12: rank 1 did not reach this call within 100 ms; rank 0 "
      "stopped waiting");
}

// LibTorch's DDP reducer works with a process group of this library.
TEST_P(Groups, WorkWithLibTorchsReducer) {
  run_on_ranks(2, quick(GetParam()), [](Group& world) {
    std::vector<at::Tensor> params = {
        at::ones({3}).requires_grad_(), at::ones({2}).requires_grad_()};
    auto reducer = std::make_shared<c10d::Reducer>(
        params,
        std::vector<std::vector<std::size_t>>{{1}, {0}},
        GroupBackends::process_group(world),
        std::vector<bool>{false, false},
        c10d::kDefaultBucketBytesCap,
        /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/false,
        std::unordered_map<std::size_t, std::string>{},
        c10d::kDefaultFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false,
        std::vector<std::int64_t>{});
    const double factor = world.rank() + 1.0;

    for (int step = 0; step < 3; ++step) {
      reducer->prepare_for_backward({});
      (params[0].sum() * factor + params[1].sum() * 2 * factor).backward();
    }

    EXPECT_TRUE(params[0].grad().eq(3 * 1.5).all().item<bool>());
    EXPECT_TRUE(params[1].grad().eq(3 * 3.0).all().item<bool>());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    Groups,
    testing::Values(Backend::shm, Backend::gloo, Backend::fake),
    [](const auto& test) { return std::string(name_of(test.param)); });

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    OurBackends,
    testing::Values(Backend::shm, Backend::fake),
    [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace accelerate
