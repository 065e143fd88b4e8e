// SPDX-License-Identifier: Apache-2.0
// The arithmetic against a slow loop that follows the rules word by word.
#include "accelerate/sharding.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/slow_shards.h"

namespace accelerate {
namespace {

// Batches of one process as real samples, read through the arithmetic.
std::vector<SlowBatch> fast_batches(
    std::int64_t n, const ShardRules& rules, std::int64_t start = 0) {
  const BatchSamplerShard shard(n, rules, start);
  std::vector<SlowBatch> batches;
  for (std::int64_t k = 0; k < shard.size(); ++k) {
    const BatchRange range = shard.at(k);
    SlowBatch batch;
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
    ASSERT_EQ(fast_batches(n, rules), slow_batches(n, rules))
        << name_of_case(n, rules);
  });
}

TEST(BatchSamplerShard, ContinuesWhereAnEarlierEpochStopped) {
  for_all_small_cases([](std::int64_t n, const ShardRules& rules) {
    const BatchSamplerShard whole(n, rules);
    const auto batches = fast_batches(n, rules);
    for (std::int64_t k = 0; k < whole.size(); ++k) {
      const auto rest = fast_batches(n, rules, whole.used_after(k));
      const std::vector<SlowBatch> wanted(
          batches.begin() + k + 1, batches.end());
      ASSERT_EQ(rest, wanted) << name_of_case(n, rules) << ", step " << k;
    }
  });
}

TEST(BatchSamplerShard, FindsABatchFarInAtOnce) {
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

TEST_P(WrongRules, AreRefusedWithTheirValues) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { BatchSamplerShard(10, GetParam().rules); }),
      GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    WrongRules,
    testing::Values(
        BadRules{{.batch_size = 0}, "batch_size is 0"},
        BadRules{
            {.num_processes = 2, .process_index = 2},
            "process_index is 2 but the data is dealt to 2 processes"},
        BadRules{
            {.num_processes = 0},
            "process_index is 0 but the data is dealt to 0 processes"},
        BadRules{
            {.batch_size = 5, .num_processes = 2, .split_batches = true},
            "split_batches cannot divide a batch_size of 5 among 2 "
            "processes"}));

TEST(BatchSamplerShard, RefusesABatchThatDoesNotExist) {
  EXPECT_EQ(
      message_of<ArgumentError>([] { BatchSamplerShard(4, {}).at(4); }),
      "batch 4 of 4");
  EXPECT_EQ(
      message_of<ArgumentError>([] { BatchSamplerShard(4, {}, 5); }),
      "start is 5 in an epoch of 4 samples");
}

}  // namespace
}  // namespace accelerate
