// SPDX-License-Identifier: Apache-2.0
// Tests which device libraries are accepted. The fixtures differ only in the
// versions that they export.
#include "device/device_library.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <torch/headeronly/version.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "device/fused_blocks.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

std::string fixture(const std::string& name) {
  return str_cat(DEVICE_FIXTURES, "/libaccelerate_", name, ".so");
}

std::string problem_with(const std::string& name) {
  return message_of<UnsupportedError>(
      [&] { open_device_library(fixture(name)); });
}

TEST(OpenDeviceLibrary, RejectsAnotherDeviceInterface) {
  EXPECT_EQ(
      problem_with("device_other_abi"),
      "`" + fixture("device_other_abi") +
          "` was built with device interface 4711, but this libaccelerate was "
          "built with " +
          std::to_string(kDeviceAbi));
}

TEST(OpenDeviceLibrary, RejectsAnotherTableOfFusedBlocks) {
  EXPECT_EQ(
      problem_with("device_other_blocks"),
      "`" + fixture("device_other_blocks") +
          "` was built with fused blocks 4711, but this libaccelerate was "
          "built with " +
          std::to_string(kFusedBlocksVersion));
}

TEST(OpenDeviceLibrary, RejectsAnotherLibTorch) {
  EXPECT_EQ(
      problem_with("device_other_torch"),
      "`" + fixture("device_other_torch") +
          "` was built with LibTorch 1.0.0, but this libaccelerate was built "
          "with " TORCH_VERSION);
}

TEST(OpenDeviceLibrary, RejectsALibraryWithoutTheEntryPoint) {
  EXPECT_EQ(
      problem_with("device_no_entry"),
      "`" + fixture("device_no_entry") + "` is not a library for CUDA");
}

TEST(OpenDeviceLibrary, SaysWhatToDoAboutAnotherVersion) {
  try {
    open_device_library(fixture("device_other_blocks"));
    FAIL() << "the library was accepted";
  } catch (const UnsupportedError& error) {
    EXPECT_EQ(
        error.hint(),
        "build both libraries from the same source tree with the same "
        "LibTorch");
  }
}

TEST(OpenDeviceLibrary, CallsACompatibleLibrary) {
  EXPECT_EQ(
      message_of<std::runtime_error>(
          [] { open_device_library(fixture("device_compatible")); }),
      "this fixture has no backend");
}

}  // namespace
}  // namespace accelerate
