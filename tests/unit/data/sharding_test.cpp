// SPDX-License-Identifier: Apache-2.0
// Compares the arithmetic with a slow loop that follows the rules literally.
#include "accelerate/sharding.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/reference_shards.h"

namespace accelerate {
namespace {

// The batches of one process as samples, computed with the arithmetic.
std::vector<ReferenceBatch> fast_batches(
    std::int64_t n, const ShardRules& rules, std::int64_t start = 0) {
  const BatchSamplerShard shard(n, rules, start);
  std::vector<ReferenceBatch> batches;
  for (std::int64_t k = 0; k < shard.size(); ++k) {
    const BatchRange range = shard.at(k);
    ReferenceBatch batch;
    for (std::int64_t i = 0; i < range.rows; ++i) {
      batch.samples.push_back((range.begin + i) % n);
    }
    batch.valid_rows = range.valid_rows;
    batches.push_back(batch);
  }
  return batches;
}

TEST(BatchSamplerShard, EqualsTheSlowLoopForEverySmallCase) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    ASSERT_EQ(fast_batches(n, rules), reference_batches(n, rules))
        << name_of_case(n, rules);
  });
}

TEST(BatchSamplerShard, ContinuesWhereAnEarlierEpochStopped) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    const BatchSamplerShard whole(n, rules);
    const auto batches = fast_batches(n, rules);
    for (std::int64_t k = 0; k < whole.size(); ++k) {
      const auto rest = fast_batches(n, rules, whole.used_after(k));
      const std::vector<ReferenceBatch> expected(
          batches.begin() + k + 1, batches.end());
      ASSERT_EQ(rest, expected) << name_of_case(n, rules) << ", step " << k;
    }
  });
}

TEST(BatchSamplerShard, FindsADistantBatchInConstantTime) {
  const BatchSamplerShard shard(
      10'000'000'000,
      {.batch_size = 10, .num_processes = 4, .process_index = 3},
      1'000'000'000);

  EXPECT_EQ(shard.size(), 225'000'000);
  EXPECT_EQ(shard.at(1), (BatchRange{1'000'000'070, 10, 10}));
  EXPECT_EQ(shard.used_after(1), 1'000'000'080);
}

struct BadRules {
  ShardRules rules;
  std::string message;
};

class WrongRules : public testing::TestWithParam<BadRules> {};

TEST_P(WrongRules, AreRefusedAndReported) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { BatchSamplerShard(10, GetParam().rules); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongRules,
    testing::Values(
        BadRules{{.batch_size = 0}, "`batch_size` is 0"},
        BadRules{
            {.num_processes = 2, .process_index = 2},
            "`process_index` is 2, but the data is divided among 2 processes"},
        BadRules{
            {.num_processes = 0},
            "`process_index` is 0, but the data is divided among 0 processes"},
        BadRules{
            {.batch_size = 5, .num_processes = 2, .split_batches = true},
            "`split_batches` cannot divide a `batch_size` of 5 among 2 "
            "processes"},
        BadRules{
            {.batch_size = 6, .devices_per_process = 4, .split_batches = true},
            "`split_batches` cannot divide a `batch_size` of 6 among 4 "
            "devices"}));

TEST(BatchSamplerShard, RefusesABatchThatDoesNotExist) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { BatchSamplerShard(4, {}).at(4); }),
      "batch index 4 is out of range; the number of batches in this shard is "
      "4");
  EXPECT_EQ(
      message_of<ArgumentError>([] { BatchSamplerShard(4, {}, 5); }),
      "`start` is 5, but the size of the epoch is 4");
}

}  // namespace
}  // namespace accelerate
