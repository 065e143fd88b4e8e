// SPDX-License-Identifier: Apache-2.0
// Saves that are killed, or fail, at each call they make to the file system.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

class Crash : public testing::TestWithParam<SaveCase> {
 protected:
  Crash() {
    const int status = in_child([&] {
      SavingRun run(before_.path(), how_);
      for (int i = 0; i < how_.earlier; ++i) {
        run.step_and_save();
      }
      return 0;
    });
    EXPECT_EQ(code_of(status), 0);
  }

  /// A copy of what the earlier saves left.
  void start_over(const fs::path& folder) const {
    fs::remove_all(folder);
    fs::copy(before_.path(), folder, fs::copy_options::recursive);
  }

  /// Loads, trains, saves and loads again: nothing is in the way. Returns the
  /// step it found, or 50 when there was no checkpoint.
  int go_on(const fs::path& folder) const {
    return code_of(in_child([&] {
      SavingRun run(folder, how_);
      int found = 50;
      try {
        found = static_cast<int>(run.load());
      } catch (const IoError&) {
        EXPECT_EQ(how_.earlier, 0);
      }
      run.step_and_save();
      SavingRun next(folder, how_);
      const auto expected = found == 50 ? 1 : found + 1;
      return next.load() == expected ? found : 98;
    }));
  }

  const SaveCase how_ = GetParam();
  const TemporaryFolder before_;
};

TEST_P(Crash, LeavesTheOldCheckpointOrTheNew) {
  const TemporaryFolder folder;
  int killed = 0;
  for (;; ++killed) {
    start_over(folder.path());
    const int status = in_child([&] {
      SavingRun run(folder.path(), how_);
      if (how_.earlier > 0) {
        run.load();
      }
      run.step();
      kill_at_call(killed + 1);
      run.save();
      return 0;
    });
    if (!was_killed(status)) {
      EXPECT_EQ(code_of(status), 0);
      break;
    }
    SCOPED_TRACE(testing::Message() << "killed at call " << killed + 1);
    const auto steps = whole_steps(folder.path());
    if (how_.earlier > 0) {
      ASSERT_FALSE(steps.empty());
      EXPECT_GE(steps.back(), how_.earlier);
      EXPECT_LE(steps.back(), how_.earlier + 1);
    }
    const int expected = steps.empty() ? 50 : static_cast<int>(steps.back());
    ASSERT_EQ(go_on(folder.path()), expected);
  }
  // Files, folders, manifest, names: a save makes at least this many calls.
  EXPECT_GT(killed, 25);
}

TEST_P(Crash, AnErrorLeavesTheOldCheckpointAndTrainingGoesOn) {
  for (const int error : {ENOSPC, EIO, EROFS, EDQUOT}) {
    const TemporaryFolder folder;
    for (int at = 1;; at += 5) {
      start_over(folder.path());
      const int status = in_child([&] {
        SavingRun run(folder.path(), how_);
        if (how_.earlier > 0) {
          run.load();
        }
        run.step();
        fail_from_call(at, error);
        bool threw = false;
        try {
          run.save();
        } catch (const IoError& problem) {
          threw = true;
          if (std::string(problem.what()).find(folder.path().string()) ==
              std::string::npos) {
            std::fprintf(stderr, "no path in: %s\n", problem.what());
            return 2;
          }
        }
        if (disarm() < at) {
          return 7;  // The save made fewer calls: this is the end.
        }
        const auto steps = whole_steps(folder.path());
        if (how_.earlier > 0 && steps.empty()) {
          return 3;
        }
        if (!threw && (steps.empty() || steps.back() != how_.earlier + 1)) {
          return 4;
        }
        run.step_and_save();
        return whole_steps(folder.path()).back() == how_.earlier + 2 ? 0 : 5;
      });
      if (code_of(status) == 7) {
        break;
      }
      ASSERT_EQ(code_of(status), 0) << "error " << error << " at call " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    Crash,
    testing::Values(
        SaveCase{1, 0, true},
        SaveCase{1, 0, false},
        SaveCase{1, 2, true},
        SaveCase{1, 2, false},
        SaveCase{2, 0, true},
        SaveCase{2, 0, false},
        SaveCase{2, 2, true},
        SaveCase{2, 2, false}),
    [](const auto& test) {
      return "limit_" + std::to_string(test.param.total_limit) + "_after_" +
             std::to_string(test.param.earlier) +
             (test.param.blocking ? "_blocking" : "_background");
    });

// The write waits until training has gone on: if the save did so too, this
// would not end.
TEST(BackgroundSave, LetsTrainingGoOnWhileTheDiskIsSlow) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        std::latch trained(1);
        SavingRun run(folder.path(), {1, 0, false});
        hold_first_write([&] { trained.wait(); });
        run.save_in_background();
        run.step();
        trained.count_down();
        run.save();
        return whole_steps(folder.path()) == std::vector<std::int64_t>{2} ? 0
                                                                          : 1;
      })),
      0);
}

TEST(BackgroundSave, TheNextSaveWaits) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        std::latch asked(1);
        SavingRun run(folder.path(), {2, 0, false});
        hold_first_write([&] { asked.wait(); });
        run.save_in_background();
        auto second =
            std::async(std::launch::async, [&] { run.save_in_background(); });
        // It cannot end before the first one does.
        const bool waits = second.wait_for(std::chrono::milliseconds(100)) ==
                           std::future_status::timeout;
        asked.count_down();
        second.get();
        run.finish();
        return waits && whole_steps(folder.path()) ==
                            std::vector<std::int64_t>{1, 2}
                   ? 0
                   : 1;
      })),
      0);
}

TEST(BackgroundSave, IsFinishedWhenTheAcceleratorEnds) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        {
          SavingRun run(folder.path(), {1, 0, false});
          run.save_in_background();
        }
        return whole_steps(folder.path()) == std::vector<std::int64_t>{1} ? 0
                                                                          : 1;
      })),
      0);
}

TEST(BackgroundSave, AnErrorComesWithTheNextCallAndAtTheEnd) {
  for (const bool at_end : {false, true}) {
    const TemporaryFolder folder;
    EXPECT_EQ(
        code_of(in_child([&] {
          SavingRun run(folder.path(), {1, 0, false});
          fail_from_call(1, EIO);
          run.save_in_background();
          try {
            at_end ? run.finish() : run.save_in_background();
            return 1;
          } catch (const IoError&) {
            disarm();
            // Once: the run goes on.
            run.step_and_save();
            return whole_steps(folder.path()).size() == 1 ? 0 : 2;
          }
        })),
        0)
        << at_end;
  }
}

// What a cluster's scheduler sends before it takes the machine away.
TEST(Preemption, SavesAtTheNextStepAndOnce) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const TemporaryFolder folder;
    EXPECT_EQ(
        code_of(in_child([&] {
          SavingRun run(folder.path(), {1, 0, true});
          auto save = run.save_every({.steps = 1000});
          run.step();
          if (save()) {
            return 1;  // Nobody has asked yet.
          }
          ::raise(signal);
          run.step();
          if (!save() || save()) {
            return 2;
          }
          return whole_steps(folder.path()) == std::vector<std::int64_t>{2} ? 0
                                                                            : 3;
        })),
        0)
        << ::strsignal(signal);
  }
}

TEST(TwoJobs, InOneFolderTakeNumbersOfTheirOwn) {
  const TemporaryFolder folder;
  const SaveCase keep_all{100, 0, true};
  const auto job = [&] {
    return in_child([&] {
      SavingRun run(folder.path(), keep_all);
      for (int i = 0; i < 10; ++i) {
        run.step_and_save();
      }
      return 0;
    });
  };
  std::fflush(nullptr);
  const pid_t other = ::fork();
  if (other == 0) {
    std::_Exit(code_of(job()));
  }
  EXPECT_EQ(code_of(job()), 0);
  int status = 0;
  ::waitpid(other, &status, 0);

  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(whole_steps(folder.path()).size(), 20U);
}

}  // namespace
}  // namespace accelerate
