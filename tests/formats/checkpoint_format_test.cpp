// SPDX-License-Identifier: Apache-2.0
// Checkpoints of every released format can be loaded.
#include <gtest/gtest.h>

#include "checkpoint_directory/checkpoints.h"
#include "golden_run.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

class GoldenCheckpoint : public testing::TestWithParam<std::string> {
 protected:
  const fs::path folder_ =
      fs::path(ACCELERATE_TEST_DATA) / "checkpoints" / GetParam();
};

TEST_P(GoldenCheckpoint, IsUndamaged) {
  const auto entries = list_checkpoints(folder_ / "checkpoints");
  ASSERT_EQ(entries.size(), 3U);
  for (const CheckpointEntry& entry : entries) {
    ASSERT_TRUE(entry.manifest) << entry.problem;
    EXPECT_TRUE(verify_checkpoint(entry.path, *entry.manifest).empty());
  }
}

TEST_P(GoldenCheckpoint, ContinuesLikeTheOriginalRun) {
  const TemporaryDirectory elsewhere;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    GoldenRun expected(PartialState(group), elsewhere.path());
    expected.train(5);

    GoldenRun run(PartialState(group), folder_);
    const LoadStateReport report = run.accelerator.load_state();
    EXPECT_EQ(report.path, folder_ / "checkpoints" / "checkpoint_2");
    EXPECT_EQ(report.step, 1);
    EXPECT_EQ(run.value, 3);
    EXPECT_FALSE(run.accelerator.sync_gradients());
    EXPECT_EQ(run.scheduler.get_last_lr()[0], 0.1 * 0.25);
    GoldenRun rest(PartialState(group), elsewhere.path() / "rest");
    rest.accelerator.load_state(report.path);
    rest.train(2);

    EXPECT_TRUE(at::allclose(rest.net->weight, expected.net->weight));
    EXPECT_EQ(rest.value, 5);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Formats, GoldenCheckpoint, testing::Values("1.0"), [](const auto& test) {
      return "version_" + std::to_string(test.index);
    });

}  // namespace
}  // namespace accelerate
