// SPDX-License-Identifier: Apache-2.0
#include "accelerate/error.h"

#include <type_traits>

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(Error, KeepsTheHintOutOfWhat) {
  const ArgumentError error("`--num_processes` is 0", "pass 1 or more");

  EXPECT_STREQ(error.what(), "`--num_processes` is 0");
  EXPECT_EQ(error.hint(), "pass 1 or more");
}

TEST(Error, RemembersWhereADerivedErrorWasThrown) {
  const auto line = std::source_location::current().line() + 1;
  const StateError error("too early");

  EXPECT_EQ(error.where().line(), line);
}

TEST(Error, HasTheExitCodeOfItsKind) {
  EXPECT_EQ(Error("x").exit_code(), 1);
  EXPECT_EQ(ArgumentError("x").exit_code(), 2);
  EXPECT_EQ(ConfigError("x").exit_code(), 2);
  EXPECT_EQ(InternalError("x").exit_code(), 70);
}

TEST(Error, ErrorsAfterWhichTheProcessGroupIsUsableAreNotDistributedErrors) {
  EXPECT_FALSE((std::is_base_of_v<DistributedError, MismatchError>));
  EXPECT_FALSE((std::is_base_of_v<DistributedError, RankError>));
  EXPECT_TRUE((std::is_base_of_v<Error, MismatchError>));
  EXPECT_TRUE((std::is_base_of_v<Error, RankError>));
}

}  // namespace
}  // namespace accelerate
