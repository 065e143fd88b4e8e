// SPDX-License-Identifier: Apache-2.0
#include "comm/distinct_gpus.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

std::string error_for(
    const std::vector<std::string>& gpus,
    const std::vector<std::string>& nccl_ids) {
  return message_of<UnsupportedError>(
      [&] { check_distinct_gpus(gpus, nccl_ids, "NVIDIA H200"); });
}

TEST(DistinctGpus, AcceptsRanksThatNcclConnects) {
  EXPECT_NO_THROW(check_distinct_gpus({"a", "b"}, {"", ""}, "NVIDIA H200"));
  EXPECT_NO_THROW(check_distinct_gpus({"a", "b"}, {"x", "x"}, "NVIDIA H200"));
  EXPECT_NO_THROW(check_distinct_gpus({"a", "a"}, {"x", "y"}, "NVIDIA H200"));
  EXPECT_NO_THROW(check_distinct_gpus({"a", "a"}, {"", "y"}, "NVIDIA H200"));
}

TEST(DistinctGpus, NamesRanksOnOneGpu) {
  EXPECT_EQ(
      error_for({"a", "b", "a"}, {"", "", ""}),
      "ranks 0, 2 use the same GPU, NVIDIA H200, but NCCL needs one GPU per "
      "rank");
  EXPECT_EQ(
      error_for({"a", "a", "a"}, {"x", "y", "x"}),
      "ranks 0, 2 use the same GPU, NVIDIA H200, and the same NCCL_HOSTID, "
      "`x`");
}

}  // namespace
}  // namespace accelerate
