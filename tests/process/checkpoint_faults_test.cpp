// SPDX-License-Identifier: Apache-2.0
// A process that is killed while all of them save.
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

class DeathWhileSaving : public testing::TestWithParam<Death> {
 protected:
  std::vector<ProcessResult> run(std::vector<std::string> words) const {
    words.insert(words.begin(), "folder=" + folder_.path().string());
    return run_processes(3, beside_this_program("checkpoint_program"), words);
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

  const TemporaryFolder folder_;
};

TEST_P(DeathWhileSaving, EndsTheOthersAndLeavesTheLastCheckpoint) {
  const auto [victim, call, background] = GetParam();
  std::vector<std::string> words{
      "steps=50",
      "every=2",
      "kill=" + std::to_string(victim) + "@4@" + std::to_string(call)};
  if (background) {
    words.emplace_back("background");
  }

  const auto results = run(words);

  const auto& dead = results[static_cast<std::size_t>(victim)];
  ASSERT_EQ(dead.signal, SIGKILL) << describe(dead) << dead.output;
  for (const ProcessResult& result : results) {
    if (result.rank == victim) {
      continue;
    }
    EXPECT_EQ(result.exit_code, 1) << describe(result) << result.output;
    EXPECT_THAT(
        result.output, testing::HasSubstr("rank " + std::to_string(victim)));
    // At once; the machine may be busy.
    EXPECT_LT(result.seconds - dead.seconds, 10) << result.output;
  }
  EXPECT_EQ(whole_steps(), std::vector<std::int64_t>{2});

  const auto next = run({"steps=6", "every=2"});
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

}  // namespace
}  // namespace accelerate
