// SPDX-License-Identifier: Apache-2.0
// Tests the token counts that are attached to a mask.
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

// A copy may get different values, and a view contains only some of the values.
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

// After `set_data`, the tensor has the memory of another tensor.
TEST(TokenCounts, AreUnknownAfterSetData) {
  at::Tensor mask = two_rows();
  attach_token_counts(mask, {.real = 3});
  const at::Tensor other = at::zeros({2, 3}, at::kLong);

  mask.set_data(other);

  EXPECT_FALSE(token_counts_of(mask));
}

TEST(ValueRange, CoversAllIntegersExceptIgnoredLabels) {
  for (const auto type : {at::kLong, at::kInt, at::kShort, at::kChar}) {
    const auto range =
        known_range(at::tensor({-100, 7, -3, 5}, at::kLong).to(type));
    ASSERT_TRUE(range) << type;
    EXPECT_EQ(range->min, -3) << type;
    EXPECT_EQ(range->max, 7) << type;
    EXPECT_TRUE(range->has_ignored) << type;
  }
  EXPECT_EQ(known_range(at::full({3}, 200, at::kByte))->max, 200);
  const auto column = known_range(at::arange(6).view({2, 3}).select(1, 1));
  EXPECT_EQ(column->min, 1);
  EXPECT_EQ(column->max, 4);
  EXPECT_FALSE(column->has_ignored);
  const auto none = known_range(at::empty({0}, at::kLong));
  EXPECT_LT(none->max, none->min);
  EXPECT_FALSE(known_range(at::ones({2})));
  EXPECT_FALSE(known_range(at::ones({2}, at::kBool)));
  EXPECT_FALSE(known_range({}));
}

TEST(ValueRange, IsKnownOnADeviceUntilTheTensorChanges) {
  const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
  at::Tensor ids = at::zeros({2, 3}, meta);
  EXPECT_FALSE(known_range(ids));

  attach_facts(ids, two_rows());
  ASSERT_TRUE(known_range(ids));
  EXPECT_EQ(known_range(ids)->max, 1);
  EXPECT_EQ(token_counts_of(ids)->real, 3);
  EXPECT_FALSE(known_range(ids.view({3, 2})));

  ids.add_(1);
  EXPECT_FALSE(known_range(ids));
  EXPECT_FALSE(token_counts_of(ids));
  attach_token_counts(ids, {.real = 4});
  EXPECT_FALSE(known_range(ids));
}

TEST(TokenCounts, AreNotAttachedInInferenceMode) {
  const c10::InferenceMode guard;
  const at::Tensor mask = two_rows();

  attach_token_counts(mask, {.real = 3});

  EXPECT_FALSE(token_counts_of(mask));
}

}  // namespace
}  // namespace accelerate
