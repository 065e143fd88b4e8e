// SPDX-License-Identifier: Apache-2.0
// Tests the behavior of a process group around the collectives of GPUs, with a
// substitute for LibTorch's NCCL process group.
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "comm/group_backends.h"
#include "comm/group_call.h"
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

const c10::Device kDevice(c10::kMeta, 0);
constexpr seconds kTimeout(20);

GroupOptions over_nccl(milliseconds timeout = kTimeout) {
  GroupOptions options = quick(Backend::nccl);
  options.device = kDevice;
  options.timeout = timeout;
  return options;
}

FakeDeviceGroup& device_of(const Group& group) {
  return dynamic_cast<FakeDeviceGroup&>(*GroupBackends::device(group));
}

at::Tensor four_elements() {
  return at::empty({4}, at::TensorOptions(kDevice));
}

// Starts an operation without the check that the other ranks start the same
// operation.
Pending start(const Group& group) {
  return GroupCall(group, "backward")
      .all_reduce(four_elements(), Reduction::sum);
}

// The error of rank 0 when rank 1 exits after a barrier.
std::string error_of_exited_rank(
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

TEST(DeviceGroup, TransfersTensorsOfTheDevice) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(), [](Group& group) {
    EXPECT_EQ(group.backend_name(), "nccl");
    (void)group.reduce({four_elements()}, Reduction::sum);
    (void)group.reduce({at::ones({2})}, Reduction::sum);
    group.barrier();
  });

  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        gpu.log(rank), ElementsAre("allreduce 4", "wait 4", "shutdown"));
  }
}

TEST(DeviceGroup, TheDeviceUsesTheTimeoutOfTheGroup) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(seconds(17)), [](Group&) {});

  ASSERT_EQ(gpu.groups().size(), 2U);
  for (const DeviceGroupOptions& options : gpu.groups()) {
    EXPECT_EQ(options.timeout, seconds(17));
    EXPECT_EQ(options.size, 2);
    EXPECT_EQ(options.device, kDevice);
  }
}

TEST(DeviceGroup, RejectsTwoRanksOnOneGpu) {
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
          "rank 1: ranks 0, 1, 2 use the same GPU, Fake (sm_90), but NCCL "
          "needs one GPU per rank\n"));
}

// A program that reads a loss waits for its device, which waits for other
// ranks.
TEST(DeviceGroup, ADeadRankUnblocksTheDeviceAndIsNamedInTheError) {
  const FakeDevice gpu(c10::kMeta);

  const std::string text = error_of_exited_rank(over_nccl(), [](Group& group) {
    const Pending pending = start(group);
    EXPECT_TRUE(device_of(group).synchronize(kTimeout));
  });

  EXPECT_EQ(
      text,
      "wait_for_everyone #2: rank 0 lost the connection to rank 1: the process "
      "exited or "
      "destroyed its process group");
  EXPECT_EQ(text, error_of_exited_rank(quick(Backend::shm)));
  EXPECT_THAT(gpu.log(0), ElementsAre("allreduce 4", "abort", "abort"));
}

TEST(DeviceGroup, AnAbortedCommunicatorReportsTheSameError) {
  const FakeDevice gpu(c10::kMeta);
  std::string later;

  run_on_ranks(2, over_nccl(), [&](Group& group) {
    group.barrier();
    if (group.rank() == 1) {
      return;
    }
    EXPECT_TRUE(device_of(group).synchronize(kTimeout));
    Pending failed = start(group);
    EXPECT_EQ(
        message_of<DistributedError>([&] { failed.wait(); }),
        "backward #0: rank 0 lost the connection to rank 1: the process exited "
        "or destroyed its "
        "process group");
    later = message_of<DistributedError>([&] { group.barrier(); });
  });

  EXPECT_EQ(
      later,
      "this group of 2 ranks is unusable after an error: backward #0: rank 0 "
      "lost the connection to rank 1: the process exited or destroyed its "
      "process group");
}

TEST(DeviceGroup, ReportsTheDeviceErrorWhenNoRankDied) {
  const FakeDevice gpu(c10::kMeta);
  std::promise<void> checked;
  auto until_checked = checked.get_future().share();

  run_on_ranks(2, over_nccl(), [&](Group& group) {
    if (group.rank() == 1) {
      (void)group.reduce({four_elements()}, Reduction::sum);
      EXPECT_EQ(until_checked.wait_for(kTimeout), std::future_status::ready);
      return;
    }
    device_of(group).break_with("unhandled system error\nmore about it");
    EXPECT_EQ(
        message_of<DistributedError>(
            [&] { (void)group.reduce({four_elements()}, Reduction::sum); }),
        "reduce #1: rank 0 lost the connection to another rank: unhandled "
        "system error");
    checked.set_value();
  });

  EXPECT_THAT(gpu.log(0), ElementsAre("abort"));
}

TEST(DeviceGroup, NamesALateRankAfterTheTimeout) {
  const FakeDevice gpu(c10::kMeta);
  std::promise<void> checked;
  auto until_checked = checked.get_future().share();

  run_on_ranks(2, over_nccl(seconds(2)), [&](Group& group) {
    if (group.rank() == 1) {
      EXPECT_EQ(until_checked.wait_for(kTimeout), std::future_status::ready);
      return;
    }
    EXPECT_EQ(
        message_of<DistributedError>(
            [&] { (void)group.reduce({four_elements()}, Reduction::sum); }),
        "reduce #1: rank 1 did not reach this call within 2 s; rank 0 stopped "
        "waiting");
    checked.set_value();
  });

  // Nothing was started, because rank 1 is missing.
  EXPECT_THAT(gpu.log(0), ElementsAre("abort"));
}

TEST(DeviceGroup, AnAbortReachesTheDevice) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, over_nccl(), [](Group& group) {
    group.barrier();
    start(group);

    group.abort();

    EXPECT_TRUE(device_of(group).synchronize(kTimeout));
    EXPECT_EQ(
        message_of<DistributedError>([&] { group.barrier(); }),
        "this group of 2 ranks was aborted on rank " +
            std::to_string(group.rank()));
  });

  EXPECT_THAT(gpu.log(0), Not(Contains("shutdown")));
}

// A rank that throws does not wait for data of the other ranks.
TEST(DeviceGroup, AnExceptionInFlightAborts) {
  const FakeDevice gpu(c10::kMeta);

  EXPECT_THROW(
      run_on_ranks(
          2,
          over_nccl(),
          [](Group& group) {
            group.barrier();
            if (group.rank() == 1) {
              const Group inner = *group.subgroup({0, 1});
              throw std::runtime_error("failed");
            }
            const auto inner = group.subgroup({0, 1});
          }),
      std::runtime_error);

  EXPECT_THAT(gpu.log(1), Contains("abort"));
}

}  // namespace
}  // namespace accelerate
