// SPDX-License-Identifier: Apache-2.0
#include "launch/program_output.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

TEST(ProgramOutput, CapturesBothStreams) {
  EXPECT_EQ(program_output({"sh", "-c", "echo a; echo b >&2"}), "a\nb\n");
}

TEST(ProgramOutput, TimesOut) {
  const auto before = std::chrono::steady_clock::now();

  // The child keeps the pipe open after its parent is killed.
  EXPECT_THROW(
      program_output(
          {"sh", "-c", "sleep 30 & wait"}, std::chrono::milliseconds(100)),
      ConfigError);
  EXPECT_LT(
      std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
}

TEST(ProgramOutput, ThrowsWhenTheProgramDoesNotExist) {
  EXPECT_THROW(program_output({"/no/such/program"}), ConfigError);
}

}  // namespace
}  // namespace accelerate
