// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/compile_options.h"

#include <gtest/gtest.h>

namespace accelerate::xla {
namespace {

// Field 3 (build options): field 4 (replicas) = 1, field 5 (partitions) = 1.
TEST(XlaCompileOptions, EncodesOneDevice) {
  EXPECT_EQ(encode({}), std::string("\x1A\x04\x20\x01\x28\x01", 6));
}

// Fields 6 and 19 turn on the SPMD partitioner and Shardy.
TEST(XlaCompileOptions, EncodesAMesh) {
  EXPECT_EQ(
      encode({.num_partitions = 200}),
      std::string("\x1A\x0A\x20\x01\x28\xC8\x01\x30\x01\x98\x01\x01", 12));
}

}  // namespace
}  // namespace accelerate::xla
