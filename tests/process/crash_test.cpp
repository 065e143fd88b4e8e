// SPDX-License-Identifier: Apache-2.0
// Saves that are killed, or fail, at each call they make to the file system.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <latch>

#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "folders/checkpoints.h"
#include "support/fault_points.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// How a run saves.
struct SaveCase {
  int total_limit;
  int earlier;  ///< saves that went well before
  bool blocking;
};

/// One process that trains a little and saves.
class SavingRun {
 public:
  SavingRun(const fs::path& folder, const SaveCase& how)
      : how_(how),
        accelerator_(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true,
                     .total_limit = how.total_limit}}),
        net_(3, 2),
        optimizer_(net_->parameters(), 0.1) {
    accelerator_.prepare(net_, optimizer_);
  }

  void step() {
    accelerator_.backward(net_->forward(torch::ones({1, 3})).sum());
    optimizer_.step();
    optimizer_.zero_grad();
  }
  void save() {
    accelerator_.save_state({.blocking = how_.blocking});
    accelerator_.wait_for_checkpoint();
  }
  void step_and_save() {
    step();
    save();
  }
  void save_in_background() {
    step();
    accelerator_.save_state({.blocking = false});
  }
  std::function<bool()> save_every(const SaveEveryOptions& options) {
    return accelerator_.save_every(options);
  }
  std::int64_t load() { return accelerator_.load_state().step; }

 private:
  SaveCase how_;
  Accelerator accelerator_;
  torch::nn::Linear net_;
  AdamW optimizer_;
};

/// Runs `body` in a child; returns how it ended, as `waitpid` tells it.
int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // Nothing hangs for ever.
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    std::_Exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The steps of all whole checkpoints, every byte compared.
std::vector<std::int64_t> whole_steps(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  if (!fs::exists(folder / "checkpoints")) {
    return steps;
  }
  for (const auto& entry : list_checkpoints(folder / "checkpoints")) {
    if (entry.manifest &&
        verify_checkpoint(entry.path, *entry.manifest).empty()) {
      steps.push_back(entry.manifest->step);
    }
  }
  return steps;
}

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
