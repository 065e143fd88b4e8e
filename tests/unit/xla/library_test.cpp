// SPDX-License-Identifier: Apache-2.0
// libaccelerate_xla.so, opened as a training program opens it, with two
// devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/error.h"
#include "device/xla_library.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

XlaDevice& library_device() {
  static XlaDevice& device = []() -> XlaDevice& {
    const XlaPlugin& library = open_xla_library(XLA_LIBRARY);
    library.register_device();
    return library.open(
        {.plugin = XLA_CPU_PLUGIN, .device_count = 2, .strict = true});
  }();
  return device;
}

TEST(XlaLibrary, OpensTheDevicesOfThePlugin) {
  EXPECT_EQ(library_device().device_count(), 2);
}

TEST(XlaLibrary, RefusesOtherOptionsForAnOpenDevice) {
  library_device();

  EXPECT_EQ(
      message_of<StateError>([] {
        open_xla_library(XLA_LIBRARY)
            .open({.plugin = XLA_CPU_PLUGIN, .device_count = 1});
      }),
      "the XLA device is already open with different options");
}

TEST(XlaLibrary, ThrowsOurErrorsAcrossTheLibrary) {
  EXPECT_THAT(
      message_of<UnsupportedError>(
          [] { open_xla_library("/no/such/library.so"); }),
      HasSubstr("the XLA device cannot be loaded: /no/such/library.so"));
}

// Plain SGD on the whole batch: the gradients of the two halves are summed by
// the program, without any collective in the loop.
TEST(XlaLibrary, TrainsOnABatchThatIsDividedOverTheDevices) {
  XlaDevice& device = library_device();
  torch::manual_seed(1);
  torch::nn::Linear reference(4, 2);
  reference->to(at::kDouble);
  torch::nn::Linear model(4, 2);
  model->to(at::kDouble);
  {
    const torch::NoGradGuard guard;
    model->weight.copy_(reference->weight);
    model->bias.copy_(reference->bias);
  }
  model->to(c10::Device("xla:0"));
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::optim::SGD reference_optimizer(reference->parameters(), 0.1);
  const at::Tensor x = at::randn({8, 4}, at::kDouble);
  const at::Tensor y = at::randint(2, {8});

  for (int step = 0; step < 5; ++step) {
    at::cross_entropy_loss(
        model(device.upload_divided(x)), device.upload_divided(y))
        .backward();
    optimizer.step();
    optimizer.zero_grad();
    device.run();
    at::cross_entropy_loss(reference(x), y).backward();
    reference_optimizer.step();
    reference_optimizer.zero_grad();
  }

  EXPECT_TRUE(model->weight.cpu().allclose(reference->weight, 1e-12, 1e-12));
  EXPECT_TRUE(model->bias.cpu().allclose(reference->bias, 1e-12, 1e-12));
  EXPECT_EQ(device.counts().fallbacks, 0);
  EXPECT_LE(device.counts().compiled, 4);
}

TEST(XlaLibrary, UploadsAnUnevenBatchToAllDevices) {
  const at::Tensor x = at::arange(9).view({3, 3});

  EXPECT_TRUE(library_device().upload_divided(x).cpu().equal(x));
}

}  // namespace
}  // namespace accelerate
