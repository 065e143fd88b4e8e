// SPDX-License-Identifier: Apache-2.0
// Tests the collectives over NCCL with real processes that share the GPU.
#include <string>

#include <gtest/gtest.h>

#include "support/run_processes.h"
#include "support/training_backends.h"

namespace accelerate {
namespace {

class CollectivesOverNccl : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { ACCELERATE_NEEDS_BACKEND(std::string("nccl")); }
};

TEST_P(CollectivesOverNccl, MatchThePlainImplementation) {
  EXPECT_NO_THROW(run_processes_or_throw(
      GetParam(),
      test_program_path("gpu_collectives"),
      {"collectives"},
      {.timeout = std::chrono::seconds(200)}));
}

TEST_P(CollectivesOverNccl, RefuseProcessesWithOneNcclId) {
  const auto results = run_processes(
      GetParam(),
      test_program_path("gpu_collectives"),
      {"group"},
      {.environment = {{"NCCL_HOSTID", "same"}}});

  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(
        result.output.find("and the same NCCL_HOSTID, `same`"),
        std::string::npos)
        << result.output;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Processes, CollectivesOverNccl, testing::Values(2, 3, 4));

}  // namespace
}  // namespace accelerate
