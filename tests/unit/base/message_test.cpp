// SPDX-License-Identifier: Apache-2.0
#include "base/message.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

TEST(Messages, AreLinesOnStderr) {
  testing::internal::CaptureStderr();
  print_line("12 files");
  print_warning("one is empty");
  print_error("two are missing");

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "12 files\nwarning: one is empty\nerror: two are missing\n");
}

TEST(Messages, ReplaceTheExceptionsOfDestructors) {
  testing::internal::CaptureStderr();
  print_errors_of([] { throw StateError("too early"); });
  print_errors_of([] {});

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: too early\n");
}

}  // namespace
}  // namespace accelerate
