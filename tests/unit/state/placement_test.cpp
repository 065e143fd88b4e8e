// SPDX-License-Identifier: Apache-2.0
#include "state/placement.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "device/device_library.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

Environment no_variables() {
  return Environment(std::map<std::string, std::string>{});
}

Environment device_variable(const std::string& device) {
  return Environment(
      std::map<std::string, std::string>{{"ACCELERATE_TORCH_DEVICE", device}});
}

TEST(Placement, EachProcessHasItsOwnGpu) {
  EXPECT_EQ(device_index(0, 2, 4, 1), 0);
  EXPECT_EQ(device_index(1, 2, 4, 1), 1);
  EXPECT_EQ(device_index(3, 4, 4, 1), 3);
}

TEST(Placement, RejectsMoreProcessesThanGpus) {
  EXPECT_EQ(
      message_of<UnsupportedError>([] { device_index(1, 2, 1, 1); }),
      "2 processes on this machine need one GPU each, but the machine has 1 "
      "GPU");
}

// Simulates a driver with an empty CUDA_VISIBLE_DEVICES.
TEST(Placement, ThrowsWhenNoGpuIsVisibleEvenWithSharing) {
  for (const int processes_per_device : {1, 2}) {
    EXPECT_EQ(
        message_of<UnsupportedError>(
            [&] { device_index(0, 2, 0, processes_per_device); }),
        "a GPU was requested, but none is visible to this process");
  }
}

TEST(Placement, ProcessesShareAGpuWhenAllowed) {
  EXPECT_EQ(device_index(1, 2, 1, 2), 0);
  EXPECT_EQ(device_index(4, 5, 2, 3), 0);
  EXPECT_EQ(device_index(3, 5, 2, 3), 1);
  EXPECT_EQ(
      message_of<UnsupportedError>([] { device_index(0, 5, 2, 2); }),
      "5 processes on this machine need 3 GPUs (at most 2 processes per GPU), "
      "but the machine has 2 GPUs");
}

TEST(Placement, SelectsTheCpuWhenRequested) {
  const Environment empty = no_variables();
  const Environment cpu_variable = device_variable("cpu");

  EXPECT_TRUE(select_device(empty, {}, {.cpu = true}).is_cpu());
  EXPECT_TRUE(select_device(cpu_variable, {}, {}).is_cpu());
}

TEST(Placement, ThrowsWhenARequestedGpuIsMissing) {
  const Environment wants_gpu = device_variable("cuda");
  if (find_device_backend() == nullptr) {
    EXPECT_THROW(select_device(wants_gpu, {}, {}), UnsupportedError);
    EXPECT_TRUE(select_device(no_variables(), {}, {}).is_cpu());
  } else {
    EXPECT_TRUE(select_device(wants_gpu, {}, {}).is_cuda());
  }
}

TEST(Placement, RejectsCpuAndGpuTogether) {
  const Environment wants_gpu = device_variable("cuda:1");

  EXPECT_EQ(
      message_of<ConfigError>(
          [&] { select_device(wants_gpu, {}, {.cpu = true}); }),
      "environment variable ACCELERATE_TORCH_DEVICE is `cuda:1`, but the CPU "
      "was requested");
}

}  // namespace
}  // namespace accelerate
