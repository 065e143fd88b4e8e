// SPDX-License-Identifier: Apache-2.0
// Processes that save one checkpoint: one of them is killed, or has a slow
// disk.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_directory/checkpoints.h"
#include "support/run_processes.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

/// The rank that is killed in the second save, and the file-system call at
/// which it is killed.
struct KilledRank {
  int rank;
  int call;
  bool background;
};

class MultiProcessSave : public testing::Test {
 protected:
  std::vector<std::string> with_folder(
      std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "folder=" + folder_.path().string());
    return arguments;
  }
  std::vector<ProcessResult> run(
      int processes, const std::vector<std::string>& arguments) const {
    return run_processes(processes, program_, with_folder(arguments));
  }

  /// The steps of the undamaged checkpoints, with every byte compared.
  std::vector<std::int64_t> undamaged_steps() const {
    std::vector<std::int64_t> steps;
    for (const auto& entry : list_checkpoints(folder_.path() / "checkpoints")) {
      if (entry.manifest &&
          verify_checkpoint(entry.path, *entry.manifest).empty()) {
        steps.push_back(entry.manifest->step);
      }
    }
    return steps;
  }

  const std::string program_ = test_program_path("checkpoint_program");
  const TemporaryDirectory folder_;
};

class RankKilledWhileSaving : public MultiProcessSave,
                              public testing::WithParamInterface<KilledRank> {};

TEST_P(RankKilledWhileSaving, StopsTheOtherRanksAndKeepsTheLastCheckpoint) {
  const auto [victim, call, background] = GetParam();
  std::vector<std::string> arguments{
      "steps=50",
      "every=2",
      "kill=" + std::to_string(victim) + "@4@" + std::to_string(call)};
  if (background) {
    arguments.emplace_back("background");
  }

  const auto results = run(3, arguments);

  const auto& dead = results[static_cast<std::size_t>(victim)];
  ASSERT_EQ(dead.signal, SIGKILL) << describe(dead) << dead.output;
  for (const ProcessResult& result : results) {
    if (result.rank == victim) {
      continue;
    }
    EXPECT_EQ(result.exit_code, 1) << describe(result) << result.output;
    EXPECT_THAT(
        result.output, testing::HasSubstr("rank " + std::to_string(victim)));
    EXPECT_THAT(
        result.output, testing::HasSubstr("cannot save a checkpoint to "));
    // The save takes about a second, the next call takes another second, and
    // the process must exit. On a busy machine with ten processes per core,
    // this has taken 6.8 s. The limit is well below the 30 s before a warning
    // and the timeout of 600 s.
    EXPECT_LT(result.seconds - dead.seconds, 15) << result.output;
  }
  EXPECT_EQ(undamaged_steps(), std::vector<std::int64_t>{2});

  const auto next = run(3, {"steps=6", "every=2"});
  EXPECT_EQ(next[0].exit_code, 0) << next[0].output;
  EXPECT_THAT(next[0].output, testing::HasSubstr("loaded step 2\n"));
  EXPECT_THAT(next[0].output, testing::HasSubstr("done at step 6\n"));
  EXPECT_EQ(undamaged_steps(), (std::vector<std::int64_t>{4, 6}));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    RankKilledWhileSaving,
    testing::Values(
        KilledRank{1, 1, false},
        KilledRank{1, 3, false},
        KilledRank{2, 3, true},
        KilledRank{0, 2, false},
        KilledRank{0, 12, false},
        KilledRank{0, 12, true}),
    [](const auto& test) {
      return "rank_" + std::to_string(test.param.rank) + "_at_" +
             std::to_string(test.param.call) +
             (test.param.background ? "_background" : "_blocking");
    });

// No rank can continue alone, so if training continues, no rank waits for the
// slow disk.
TEST_F(MultiProcessSave, DoesNotBlockTrainingWhileOneDiskIsBlocked) {
  for (const char* disk : {"slow=0@6@steps", "slow=1@6@steps"}) {
    const auto results = run(2, {"steps=12", "every=6", "background", disk});
    for (const ProcessResult& result : results) {
      EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
      EXPECT_THAT(result.output, testing::HasSubstr("trained further\n"));
      EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("failed")));
    }
    EXPECT_EQ(undamaged_steps(), (std::vector<std::int64_t>{6, 12}));
    std::filesystem::remove_all(folder_.path() / "checkpoints");
  }
}

TEST_F(MultiProcessSave, WaitsForASlowDisk) {
  const auto results = run(2, {"steps=4", "every=2", "slow=1@2@each"});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
  }
  EXPECT_EQ(undamaged_steps(), (std::vector<std::int64_t>{2, 4}));
}

TEST_F(MultiProcessSave, ReportsACheckpointThatTimedOut) {
  Processes ranks(
      2,
      program_,
      with_folder(
          {"steps=6", "every=2", "background", "timeout=3", "slow=1@4@stdin"}));
  // The first save is complete; in the third save, rank 0 receives the error of
  // the second save.
  ranks.wait_for(0, "save failed: ");
  ranks.send_line(1, "go on");

  for (const ProcessResult& result : ranks.wait()) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
    EXPECT_THAT(
        result.output,
        testing::ContainsRegex(
            "save failed: cannot save a checkpoint to .*_1: "));
    EXPECT_THAT(result.output, testing::HasSubstr("rank 1"));
  }
  EXPECT_EQ(undamaged_steps(), (std::vector<std::int64_t>{2, 6}));
}

}  // namespace
}  // namespace accelerate
