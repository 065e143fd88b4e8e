// SPDX-License-Identifier: Apache-2.0
// Programs whose environment does not choose XLA when they start. Each test
// runs in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/accelerate.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

void run_backward(c10::Device device) {
  at::ones({2}, device).set_requires_grad(true).sum().backward();
}

TEST(XlaChosenInTheProgram, Trains) {
  const Accelerator accelerator({.device = c10::kXLA});

  EXPECT_EQ(accelerator.device(), c10::Device("xla:0"));
  run_backward(accelerator.device());
}

TEST(XlaChosenInTheProgram, ThrowsAfterABackwardPass) {
  run_backward(c10::kCPU);

  std::string hint;
  try {
    const Accelerator accelerator({.device = c10::kXLA});
  } catch (const StateError& error) {
    EXPECT_THAT(
        error.what(), HasSubstr("after the first `backward` of this process"));
    hint = error.hint();
  }
  EXPECT_EQ(
      hint,
      "create the `Accelerator` before the first `backward`, or set "
      "PJRT_DEVICE before the program starts");
}

TEST(XlaChosenInTheProgram, ContradictsTheCpu) {
  EXPECT_EQ(
      message_of<ConfigError>(
          [] { Accelerator({.cpu = true, .device = c10::kXLA}); }),
      "the option `device` is `xla`, but the CPU was requested");
}

TEST(XlaChosenInTheProgram, IsNotTheDeviceOfAnEarlierAccelerator) {
  const Accelerator on_cpu({.cpu = true});

  EXPECT_EQ(
      message_of<StateError>([] { Accelerator({.device = c10::kXLA}); }),
      "this process already has a PartialState whose `device` is not set; the "
      "new value is xla");
}

}  // namespace
}  // namespace accelerate
