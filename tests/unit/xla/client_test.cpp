// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/client.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "unit/xla/cpu_client.h"

namespace accelerate::xla {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> downloaded(const Buffer& buffer) {
  std::vector<float> values(
      static_cast<std::size_t>(element_count(buffer.shape())));
  buffer.download(values.data(), values.size() * sizeof(float));
  return values;
}

constexpr const char* kAddOne = R"(
module @m {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %one = "stablehlo.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2xf32>
    %r = "stablehlo.add"(%a, %one) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%r) : (tensor<2xf32>) -> ()
  }
})";

constexpr const char* kAddOneInPlace = R"(
module @m {
  func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
    %one = "stablehlo.constant"() <{value = dense<1.0> : tensor<2xf32>}> : () -> tensor<2xf32>
    %r = "stablehlo.add"(%a, %one) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    "func.return"(%r) : (tensor<2xf32>) -> ()
  }
})";

class XlaClientOn : public testing::TestWithParam<std::int64_t> {
 protected:
  const Client& client() const { return cpu_client(GetParam()); }
};

TEST_P(XlaClientOn, HasTheDevicesThatWereAskedFor) {
  EXPECT_EQ(client().device_count(), GetParam());
  EXPECT_EQ(client().platform_name(), "cpu");
  EXPECT_NE(client().platform_version(), "");
  EXPECT_NE(client().device_kind(GetParam() - 1), "");
}

TEST_P(XlaClientOn, UploadsAndDownloads) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};

  const Buffer buffer =
      client().upload(values.data(), ElementType::f32, {2, 3}, GetParam() - 1);

  EXPECT_EQ(buffer.type(), ElementType::f32);
  EXPECT_THAT(buffer.shape(), ElementsAre(2, 3));
  EXPECT_EQ(downloaded(buffer), values);
}

INSTANTIATE_TEST_SUITE_P(
    Devices,
    XlaClientOn,
    testing::Values(1, 2, 4),
    testing::PrintToStringParamName());

TEST(XlaClient, RunsAProgram) {
  const Client& client = cpu_client(1);
  const Executable program = client.compile(kAddOne, {});
  const std::vector<float> values{1, 2};
  const Buffer x = client.upload(values.data(), ElementType::f32, {2}, 0);

  auto run = program.execute({{&x}});
  run.finished[0].wait();

  EXPECT_THAT(downloaded(run.outputs[0][0]), ElementsAre(2, 3));
  EXPECT_FALSE(x.is_deleted());
}

TEST(XlaClient, DonatesAnArgument) {
  const Client& client = cpu_client(1);
  const Executable program = client.compile(kAddOneInPlace, {});
  const std::vector<float> values{1, 2};
  const Buffer x = client.upload(values.data(), ElementType::f32, {2}, 0);

  auto run = program.execute({{&x}});

  EXPECT_THAT(downloaded(run.outputs[0][0]), ElementsAre(2, 3));
  EXPECT_TRUE(x.is_deleted());
}

TEST(XlaClient, LoadsASerializedProgram) {
  const Client& client = cpu_client(1);
  const std::string bytes = client.compile(kAddOne, {}).serialize();
  const Executable program = client.load(bytes);
  const std::vector<float> values{5, 6};
  const Buffer x = client.upload(values.data(), ElementType::f32, {2}, 0);

  auto run = program.execute({{&x}});

  EXPECT_THAT(downloaded(run.outputs[0][0]), ElementsAre(6, 7));
}

TEST(XlaClient, RefusesBytesThatAreNoProgram) {
  EXPECT_THROW(cpu_client(1).load("not a program"), Error);
}

TEST(XlaClient, PassesOnTheTextOfAFailedCompilation) {
  EXPECT_THAT(
      message_of<Error>([] { cpu_client(1).compile("module {", {}); }),
      HasSubstr("cannot compile a program with XLA: "));
}

TEST(XlaClient, RefusesADeviceThatDoesNotExist) {
  const float value = 0;

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { cpu_client(2).upload(&value, ElementType::f32, {}, 2); }),
      "there is no XLA device 2; the number of XLA devices in this process is "
      "2");
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { Client(cpu_plugin(), {.device_count = 0}); }),
      "cannot use 0 XLA devices");
}

TEST(XlaClient, RefusesADownloadOfAnotherSize) {
  const float value = 0;
  const Buffer buffer = cpu_client(1).upload(&value, ElementType::f32, {}, 0);
  float to[2];

  EXPECT_EQ(
      message_of<ArgumentError>([&] { buffer.download(to, sizeof(to)); }),
      "a buffer of 4 bytes cannot be read into 8 bytes");
}

TEST(XlaClient, RefusesArgumentsForAnotherNumberOfDevices) {
  const Executable program = cpu_client(1).compile(kAddOne, {});

  EXPECT_EQ(
      message_of<ArgumentError>([&] { program.execute({{}, {}}); }),
      "a program for 1 devices got arguments for 2");
}

}  // namespace
}  // namespace accelerate::xla
