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
  EXPECT_EQ(device_index(0, 2, 4, false), 0);
  EXPECT_EQ(device_index(1, 2, 4, false), 1);
  EXPECT_EQ(device_index(3, 4, 4, false), 3);
}

TEST(Placement, MoreProcessesThanGpusAreRefused) {
  EXPECT_EQ(
      message_of<UnsupportedError>([] { device_index(1, 2, 1, false); }),
      "2 processes on this host want a GPU each, and it has 1");
}

// A driver, and CUDA_VISIBLE_DEVICES empty.
TEST(Placement, NoGpuToBeSeenIsAnErrorAlsoWhereTheyAreShared) {
  for (const bool shares : {false, true}) {
    EXPECT_EQ(
        message_of<UnsupportedError>([&] { device_index(0, 2, 0, shares); }),
        "a GPU was asked for, and this process sees none");
  }
}

TEST(Placement, ProcessesShareAGpuWhenAskedTo) {
  EXPECT_EQ(device_index(1, 2, 1, true), 0);
  EXPECT_EQ(device_index(4, 5, 2, true), 0);
  EXPECT_EQ(device_index(3, 5, 2, true), 1);
}

TEST(Placement, TheCpuIsTheCpuWhateverThereIs) {
  const Environment nothing = no_variables();
  const Environment named = device_variable("cpu");

  EXPECT_TRUE(place(nothing, {}, {.cpu = true}).is_cpu());
  EXPECT_TRUE(place(named, {}, {}).is_cpu());
}

TEST(Placement, AGpuThatIsAskedForAndNotThereIsAnError) {
  const Environment wants_gpu = device_variable("cuda");
  if (find_device_backend() == nullptr) {
    EXPECT_THROW(place(wants_gpu, {}, {}), UnsupportedError);
    EXPECT_TRUE(place(no_variables(), {}, {}).is_cpu());
  } else {
    EXPECT_TRUE(place(wants_gpu, {}, {}).is_cuda());
  }
}

TEST(Placement, TheCpuAndAGpuContradict) {
  const Environment wants_gpu = device_variable("cuda:1");

  EXPECT_EQ(
      message_of<ConfigError>([&] { place(wants_gpu, {}, {.cpu = true}); }),
      "environment variable ACCELERATE_TORCH_DEVICE is `cuda:1`, but the CPU "
      "was asked for");
}

}  // namespace
}  // namespace accelerate
