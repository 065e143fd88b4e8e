// SPDX-License-Identifier: Apache-2.0
#include "accelerate/permutation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

std::vector<std::int64_t> all_of(const Permutation& order) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < order.size(); ++i) {
    indices.push_back(order(i));
  }
  return indices;
}

class PermutationOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(PermutationOf, HasEveryIndexOnce) {
  auto indices = all_of(Permutation(GetParam(), {7, 3}));

  std::sort(indices.begin(), indices.end());

  std::vector<std::int64_t> wanted(static_cast<std::size_t>(GetParam()));
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(indices, wanted);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes,
    PermutationOf,
    testing::Values(0, 1, 2, 3, 10, 1023, 1024, 1025, 70'001));

TEST(Permutation, DependsOnSeedAndEpoch) {
  const auto indices = all_of(Permutation(50, {1, 2}));

  EXPECT_EQ(indices, all_of(Permutation(50, {1, 2})));
  EXPECT_NE(indices, all_of(Permutation(50, {2, 1})));
  EXPECT_NE(indices, all_of(Permutation(50, {1, 3})));
}

// A changed order would break resuming from saved runs.
TEST(Permutation, NeverChanges) {
  EXPECT_EQ(
      all_of(Permutation(10, {42, 0})),
      (std::vector<std::int64_t>{6, 9, 2, 8, 4, 1, 5, 3, 0, 7}));
}

// Chi-squared with 23 degrees of freedom exceeds 49.7 with a probability of
// 0.001.
TEST(Permutation, ProducesEveryOrderOfFourEquallyOften) {
  constexpr int kSeeds = 24'000;
  std::map<std::vector<std::int64_t>, int> counts;
  for (int seed = 0; seed < kSeeds; ++seed) {
    ++counts[all_of(Permutation(4, {static_cast<std::uint64_t>(seed), 0}))];
  }

  ASSERT_EQ(counts.size(), 24);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi_square, 49.7);
}

// Chi-squared with 63 degrees of freedom exceeds 103.4 with a probability of
// 0.001.
TEST(Permutation, SendsAPositionEverywhereEquallyOften) {
  constexpr int kSize = 6'400;
  std::vector<int> counts(64);
  for (std::uint64_t seed = 0; seed < 64'000; ++seed) {
    ++counts[static_cast<std::size_t>(Permutation(kSize, {seed, 5})(17) / 100)];
  }

  double chi_square = 0;
  for (const int count : counts) {
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  EXPECT_LT(chi_square, 103.4);
}

TEST(Permutation, RefusesInvalidSizesAndPositions) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { Permutation(-1, {}); }),
      "cannot make a permutation of -1 elements");
  EXPECT_EQ(
      message_of<ArgumentError>([] { Permutation(3, {})(3); }),
      "position 3 is outside a permutation of 3 elements");
}

}  // namespace
}  // namespace accelerate
