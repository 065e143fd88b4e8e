// SPDX-License-Identifier: Apache-2.0
// The counts that travel with a mask.
#include "device/token_counts.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace accelerate {
namespace {

at::Tensor two_rows() {
  return at::tensor({1, 1, 0, 1, 0, 0}, at::kLong).view({2, 3});
}

TEST(CountTokens, CountsOnes) {
  for (const auto type :
       {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    const auto counts = count_tokens(two_rows().to(type));
    ASSERT_TRUE(counts) << type;
    EXPECT_EQ(counts->real, 3) << type;
    EXPECT_TRUE(counts->has_first_tokens) << type;
  }
  const auto left = count_tokens(two_rows().flip(1));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->real, 3);
  EXPECT_FALSE(left->has_first_tokens);
  const auto columns = count_tokens(two_rows().t());
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->real, 3);
}

TEST(CountTokens, IgnoresTensorsThatAreNoMask) {
  EXPECT_FALSE(count_tokens(at::Tensor()));
  EXPECT_FALSE(count_tokens(at::ones({3}, at::kLong)));
  EXPECT_FALSE(count_tokens(at::ones({2, 3, 4}, at::kLong)));
  EXPECT_FALSE(count_tokens(at::ones({2, 3})));
  EXPECT_FALSE(count_tokens(at::tensor({1, 7, 0, 1}, at::kLong).view({2, 2})));
  EXPECT_FALSE(
      count_tokens(at::tensor({1, 0, -100, 1}, at::kLong).view({2, 2})));
  // No batch of these sizes is unpadded.
  EXPECT_FALSE(count_tokens(at::ones({2, 129}, at::kLong)));
  EXPECT_FALSE(count_tokens(at::ones({513, 128}, at::kLong)));
  EXPECT_TRUE(count_tokens(at::ones({512, 128}, at::kLong)));
  EXPECT_EQ(count_tokens(at::ones({2, 0}, at::kLong))->real, 0);
}

TEST(TokenCounts, AreKnownUntilTheTensorChanges) {
  at::Tensor mask = two_rows();
  EXPECT_FALSE(token_counts_of(mask));

  attach_token_counts(mask, {.real = 3, .has_first_tokens = true});
  ASSERT_TRUE(token_counts_of(mask));
  EXPECT_EQ(token_counts_of(mask)->real, 3);
  const at::Tensor same = mask;
  EXPECT_TRUE(token_counts_of(same));

  mask[0][0] = 5;
  EXPECT_FALSE(token_counts_of(mask));
  attach_token_counts(mask, {.real = 4});
  EXPECT_EQ(token_counts_of(mask)->real, 4);
}

// A copy may get other values, and a view shows only some of them.
TEST(TokenCounts, DoNotReachCopiesAndViews) {
  at::Tensor mask = two_rows();
  attach_token_counts(mask, {.real = 3});

  EXPECT_FALSE(token_counts_of(mask.clone()));
  EXPECT_FALSE(token_counts_of(mask.detach()));
  EXPECT_FALSE(token_counts_of(mask.narrow(0, 0, 1)));
  EXPECT_FALSE(token_counts_of(mask.view({3, 2})));
  EXPECT_TRUE(token_counts_of(mask));

  at::Tensor other = at::zeros({2, 3}, at::kLong);
  other.set_data(mask);
  EXPECT_FALSE(token_counts_of(other));
}

// The tensor then has the memory of another one.
TEST(TokenCounts, AreUnknownAfterSetData) {
  at::Tensor mask = two_rows();
  attach_token_counts(mask, {.real = 3});
  const at::Tensor other = at::zeros({2, 3}, at::kLong);

  mask.set_data(other);

  EXPECT_FALSE(token_counts_of(mask));
}

TEST(TokenCounts, AreNotAttachedInInferenceMode) {
  const c10::InferenceMode guard;
  const at::Tensor mask = two_rows();

  attach_token_counts(mask, {.real = 3});

  EXPECT_FALSE(token_counts_of(mask));
}

}  // namespace
}  // namespace accelerate
