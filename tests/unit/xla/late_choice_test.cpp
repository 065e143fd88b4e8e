// SPDX-License-Identifier: Apache-2.0
// Programs whose environment does not choose XLA when they start. Each test
// runs in a process of its own.
#include <cstdlib>
#include <map>
#include <string>

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

std::string error_with(const char* kind, const std::string& plugin) {
  try {
    PartialState(
        {.environment = std::map<std::string, std::string>{
             {"PJRT_DEVICE", kind}, {"PJRT_PLUGIN_PATH", plugin}}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(XlaPlugin, MustExist) {
  EXPECT_THAT(
      error_with("CPU", "/no/such/plugin.so"),
      HasSubstr("XLA cannot be loaded: /no/such/plugin.so"));
}

TEST(XlaPlugin, MustBeAPlugin) {
  EXPECT_EQ(
      error_with("CPU", ACCELERATE_LIBRARY),
      "`" ACCELERATE_LIBRARY "` is not a library for XLA");
}

TEST(XlaPlugin, MustBeForTheChosenKindOfDevice) {
  const std::string plugin = std::getenv("PJRT_PLUGIN_PATH");

  EXPECT_EQ(
      error_with("TPU", plugin),
      "environment variable PJRT_DEVICE is `TPU`, but the devices of the "
      "plugin " +
          plugin + " belong to the platform `cpu`");
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
