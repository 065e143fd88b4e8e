// SPDX-License-Identifier: Apache-2.0
// Processes that save together: one is killed, or has a slow disk.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folders/checkpoints.h"
#include "support/run_processes.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

/// Who dies in the second save, at which of its calls to the file system.
struct Death {
  int rank;
  int call;
  bool background;
};

class SavingTogether : public testing::Test {
 protected:
  std::vector<std::string> with_folder(std::vector<std::string> words) const {
    words.insert(words.begin(), "folder=" + folder_.path().string());
    return words;
  }
  std::vector<ProcessResult> run(
      int processes, const std::vector<std::string>& words) const {
    return run_processes(processes, program_, with_folder(words));
  }

  /// Steps of the whole checkpoints, every byte compared.
  std::vector<std::int64_t> whole_steps() const {
    std::vector<std::int64_t> steps;
    for (const auto& entry : list_checkpoints(folder_.path() / "checkpoints")) {
      if (entry.manifest &&
          verify_checkpoint(entry.path, *entry.manifest).empty()) {
        steps.push_back(entry.manifest->step);
      }
    }
    return steps;
  }

  const std::string program_ = beside_this_program("checkpoint_program");
  const TemporaryFolder folder_;
};

class DeathWhileSaving : public SavingTogether,
                         public testing::WithParamInterface<Death> {};

TEST_P(DeathWhileSaving, EndsTheOthersAndLeavesTheLastCheckpoint) {
  const auto [victim, call, background] = GetParam();
  std::vector<std::string> words{
      "steps=50",
      "every=2",
      "kill=" + std::to_string(victim) + "@4@" + std::to_string(call)};
  if (background) {
    words.emplace_back("background");
  }

  const auto results = run(3, words);

  const auto& dead = results[static_cast<std::size_t>(victim)];
  ASSERT_EQ(dead.signal, SIGKILL) << describe(dead) << dead.output;
  for (const ProcessResult& result : results) {
    if (result.rank == victim) {
      continue;
    }
    EXPECT_EQ(result.exit_code, 1) << describe(result) << result.output;
    EXPECT_THAT(
        result.output, testing::HasSubstr("rank " + std::to_string(victim)));
    EXPECT_THAT(result.output, testing::HasSubstr("no checkpoint at "));
    // A second for the save, one for the next call, and the end of a process;
    // more where ten others want each core (6.8 s was seen), but far from the
    // 30 s of a warning and the 600 s of a timeout.
    EXPECT_LT(result.seconds - dead.seconds, 15) << result.output;
  }
  EXPECT_EQ(whole_steps(), std::vector<std::int64_t>{2});

  const auto next = run(3, {"steps=6", "every=2"});
  EXPECT_EQ(next[0].exit_code, 0) << next[0].output;
  EXPECT_THAT(next[0].output, testing::HasSubstr("loaded step 2\n"));
  EXPECT_THAT(next[0].output, testing::HasSubstr("done at step 6\n"));
  EXPECT_EQ(whole_steps(), (std::vector<std::int64_t>{4, 6}));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    DeathWhileSaving,
    testing::Values(
        Death{1, 1, false},
        Death{1, 3, false},
        Death{2, 3, true},
        Death{0, 2, false},
        Death{0, 12, false},
        Death{0, 12, true}),
    [](const auto& test) {
      return "rank_" + std::to_string(test.param.rank) + "_at_" +
             std::to_string(test.param.call) +
             (test.param.background ? "_background" : "_blocking");
    });

// Steps are taken together, so that no rank has waited for the slow one's disk.
TEST_F(SavingTogether, LetsAllTrainOnWhileOneDiskDoesNotAnswer) {
  for (const char* disk : {"slow=0@6@steps", "slow=1@6@steps"}) {
    const auto results = run(2, {"steps=12", "every=6", "background", disk});
    for (const ProcessResult& result : results) {
      EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
      EXPECT_THAT(result.output, testing::HasSubstr("trained on\n"));
      EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("failed")));
    }
    EXPECT_EQ(whole_steps(), (std::vector<std::int64_t>{6, 12}));
    std::filesystem::remove_all(folder_.path() / "checkpoints");
  }
}

TEST_F(SavingTogether, WaitsForADiskThatTakesItsTime) {
  const auto results = run(2, {"steps=4", "every=2", "slow=1@2@each"});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
  }
  EXPECT_EQ(whole_steps(), (std::vector<std::int64_t>{2, 4}));
}

TEST_F(SavingTogether, NamesACheckpointThatOneDiskTookTooLongFor) {
  Processes ranks(
      2,
      program_,
      with_folder(
          {"steps=6", "every=2", "background", "timeout=3", "slow=1@4@told"}));
  // The first save is whole; rank 0 learns at the third of the second's end.
  ranks.wait_for(0, "save failed: ");
  ranks.tell(1, "go on");

  for (const ProcessResult& result : ranks.wait()) {
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
    EXPECT_THAT(
        result.output,
        testing::ContainsRegex("save failed: no checkpoint at .*_1: "));
    EXPECT_THAT(result.output, testing::HasSubstr("rank 1"));
  }
  EXPECT_EQ(whole_steps(), (std::vector<std::int64_t>{2, 6}));
}

}  // namespace
}  // namespace accelerate
