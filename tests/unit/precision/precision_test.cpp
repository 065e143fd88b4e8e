// SPDX-License-Identifier: Apache-2.0
#include "accelerate/precision.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

TEST(Precision, ParsesEachNameInAnyCase) {
  EXPECT_EQ(parse_precision("no"), Precision::no);
  EXPECT_EQ(parse_precision("FP16"), Precision::fp16);
  EXPECT_EQ(parse_precision("Bf16"), Precision::bf16);
  EXPECT_EQ(name_of(Precision::no), "no");
  EXPECT_EQ(name_of(Precision::fp16), "fp16");
  EXPECT_EQ(name_of(Precision::bf16), "bf16");
}

TEST(Precision, ListsTheChoicesForAnUnknownName) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { parse_precision("f16"); }),
      "mixed precision is `f16`, but must be one of no, fp16, bf16");
}

TEST(Precision, RejectsFp8) {
  EXPECT_EQ(
      message_of<UnsupportedError>([] { parse_precision("fp8"); }),
      "mixed precision `fp8` needs GPU kernels that accelerate does not have");
}

TEST(Precision, RejectsFp16OnTheCpu) {
  EXPECT_EQ(
      message_of<UnsupportedError>(
          [] { check_precision(Precision::fp16, c10::DeviceType::CPU); }),
      "mixed precision `fp16` needs a GPU, but this process runs on the CPU");
  check_precision(Precision::fp16, c10::DeviceType::CUDA);
  check_precision(Precision::bf16, c10::DeviceType::CPU);
  check_precision(Precision::no, c10::DeviceType::CPU);
}

}  // namespace
}  // namespace accelerate
