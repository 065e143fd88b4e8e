// SPDX-License-Identifier: Apache-2.0
#include "base/str_cat.h"

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(StrCat, JoinsStreamableValues) {
  EXPECT_EQ(str_cat("rank ", 3, " of ", 4L, ", ", 0.5), "rank 3 of 4, 0.5");
}

}  // namespace
}  // namespace accelerate
