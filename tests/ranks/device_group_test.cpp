// SPDX-License-Identifier: Apache-2.0
// What a group does around the collectives of GPUs, with a stand-in for those:
// the host's part of NCCL between several GPUs.
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "comm/backends/device_work.h"
#include "support/fake_device.h"
#include "support/fake_device_group.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

const c10::Device kThere(c10::kMeta, 0);
constexpr seconds kLimit(20);

GroupOptions over_nccl(milliseconds timeout = kLimit) {
  GroupOptions options = quick(Backend::nccl);
  options.device = kThere;
  options.timeout = timeout;
  return options;
}

FakeDeviceGroup& device_of(const Group& group) {
  return dynamic_cast<FakeDeviceGroup&>(*group.device_backend());
}

at::Tensor four() {
  return at::empty({4}, at::TensorOptions(kThere));
}

c10::intrusive_ptr<c10d::Work> start(const Group& group) {
  return started_on_device([&] {
    std::vector<at::Tensor> one = {four()};
    return group.device_backend()->allreduce(one, {});
  });
}

// What rank 0 is told when rank 1 leaves after a barrier.
std::string loss_of_a_peer(
    const GroupOptions& options,
    const std::function<void(Group&)>& meanwhile = [](Group&) {}) {
  std::string text;
  run_on_ranks(2, options, [&](Group& group) {
    group.barrier();
    if (group.rank() == 0) {
      meanwhile(group);
      text = message_of<DistributedError>([&] { group.barrier(); });
    }
  });
  return text;
}

TEST(DeviceGroup, CarriesTensorsOfTheDevice) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(), [](Group& group) {
    EXPECT_EQ(group.backend_name(), "nccl");
    (void)group.reduce({four()}, Reduction::sum);
    (void)group.reduce({at::ones({2})}, Reduction::sum);
    group.barrier();
  });

  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        gpu.log(rank), ElementsAre("allreduce 4", "wait 4", "shutdown"));
  }
}

TEST(DeviceGroup, TheDevicesLimitIsTheGroups) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(seconds(17)), [](Group&) {});

  ASSERT_EQ(gpu.groups().size(), 2U);
  for (const DeviceGroupOptions& made : gpu.groups()) {
    EXPECT_EQ(made.timeout, seconds(17));
    EXPECT_EQ(made.size, 2);
    EXPECT_EQ(made.device, kThere);
  }
}

TEST(DeviceGroup, TwoRanksOnOneGpuAreRefused) {
  FakeDevice gpu(c10::kMeta);
  gpu.is_shared = true;
  std::string text;
  try {
    run_on_ranks(3, over_nccl(), [](Group&) {});
  } catch (const std::runtime_error& error) {
    text = error.what();
  }

  EXPECT_THAT(
      text,
      testing::HasSubstr(
          "rank 1: ranks 0, 1, 2 are on one GPU, Fake (sm_90), and NCCL wants "
          "one for each\n"));
}

// A program that reads a loss waits for its device, which waits for a peer.
TEST(DeviceGroup, ADeadPeerFreesTheDeviceAndIsNamedAsOnTheHost) {
  const FakeDevice gpu(c10::kMeta);

  const std::string text = loss_of_a_peer(over_nccl(), [](Group& group) {
    start(group);
    EXPECT_TRUE(device_of(group).synchronize(kLimit));
  });

  EXPECT_EQ(
      text,
      "wait_for_everyone #2: rank 0 lost rank 1: the process ended or "
      "destroyed its group");
  EXPECT_EQ(text, loss_of_a_peer(quick(Backend::shm)));
  EXPECT_THAT(gpu.log(0), ElementsAre("allreduce 4", "abort", "abort"));
}

TEST(DeviceGroup, WhatAnAbortedCommunicatorRefusesIsTheSameError) {
  const FakeDevice gpu(c10::kMeta);
  std::string later;

  run_on_ranks(2, over_nccl(), [&](Group& group) {
    group.barrier();
    if (group.rank() == 1) {
      return;
    }
    EXPECT_TRUE(device_of(group).synchronize(kLimit));
    const auto refused = start(group);
    EXPECT_EQ(
        message_of<DistributedError>(
            [&] { group.wait_on_device(refused, "backward"); }),
        "backward #1: rank 0 lost rank 1: the process ended or destroyed its "
        "group");
    later = message_of<DistributedError>([&] { group.barrier(); });
  });

  EXPECT_EQ(
      later,
      "this group of 2 ranks is unusable since backward #1: rank 0 lost rank "
      "1: the process ended or destroyed its group");
}

TEST(DeviceGroup, WhatBreaksBetweenTheLivingIsSaidInTheDevicesWords) {
  const FakeDevice gpu(c10::kMeta);
  std::promise<void> told;
  auto until = told.get_future().share();

  run_on_ranks(2, over_nccl(), [&](Group& group) {
    if (group.rank() == 1) {
      (void)group.reduce({four()}, Reduction::sum);
      EXPECT_EQ(until.wait_for(kLimit), std::future_status::ready);
      return;
    }
    device_of(group).break_with("unhandled system error\nmore about it");
    EXPECT_EQ(
        message_of<DistributedError>(
            [&] { (void)group.reduce({four()}, Reduction::sum); }),
        "reduce #1: rank 0 lost the connection to a peer: unhandled system "
        "error");
    told.set_value();
  });

  EXPECT_THAT(gpu.log(0), ElementsAre("abort"));
}

TEST(DeviceGroup, ALatePeerIsNamedWhenTheTimeIsOver) {
  const FakeDevice gpu(c10::kMeta);
  std::promise<void> told;
  auto until = told.get_future().share();

  run_on_ranks(2, over_nccl(seconds(2)), [&](Group& group) {
    if (group.rank() == 1) {
      EXPECT_EQ(until.wait_for(kLimit), std::future_status::ready);
      return;
    }
    EXPECT_EQ(
        message_of<DistributedError>(
            [&] { (void)group.reduce({four()}, Reduction::sum); }),
        "reduce #1: rank 1 did not come within 2 s; rank 0 stopped waiting");
    told.set_value();
  });

  // Nothing was started for a peer that is not there.
  EXPECT_THAT(gpu.log(0), ElementsAre("abort"));
}

TEST(DeviceGroup, AnAbortReachesTheDevice) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(), [](Group& group) {
    group.barrier();
    start(group);

    group.abort();

    EXPECT_TRUE(device_of(group).synchronize(kLimit));
    EXPECT_EQ(
        message_of<DistributedError>([&] { group.barrier(); }),
        "this group of 2 ranks was aborted on rank " +
            std::to_string(group.rank()));
  });

  EXPECT_THAT(gpu.log(0), Not(Contains("shutdown")));
}

// A rank in trouble does not wait for what its peers have yet to send.
TEST(DeviceGroup, AnExceptionOnItsWayAborts) {
  const FakeDevice gpu(c10::kMeta);

  EXPECT_THROW(
      run_on_ranks(
          2,
          over_nccl(),
          [](Group& group) {
            group.barrier();
            if (group.rank() == 1) {
              const Group inner = *group.subgroup({0, 1});
              throw std::runtime_error("out of ideas");
            }
            const auto inner = group.subgroup({0, 1});
          }),
      std::runtime_error);

  EXPECT_THAT(gpu.log(1), Contains("abort"));
}

}  // namespace
}  // namespace accelerate
