// SPDX-License-Identifier: Apache-2.0
// Saves that are killed or fail at each of their file-system calls.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "checkpoint_directory/leftovers.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

/// Whether earlier saves and removals left nothing behind: no temporary folder,
/// no lock and, if the checkpoints replace each other, no replaced checkpoint.
bool has_only_checkpoints(const fs::path& folder, const bool only_the_last) {
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (only_the_last ? name != "last" : !checkpoint_number(name)) {
      std::fprintf(stderr, "left: %s\n", name.c_str());
      return false;
    }
  }
  return true;
}

/// Whether an error contains the path and the system's error message.
bool is_descriptive(
    const Error& problem, const fs::path& folder, const int error) {
  const std::string text = problem.what();
  if (text.find(folder.string()) != text.npos &&
      text.find(errno_text(error)) != text.npos) {
    return true;
  }
  std::fprintf(
      stderr,
      "no path or no `%s` in: %s\n",
      errno_text(error).c_str(),
      text.c_str());
  return false;
}

/// The outcome of a save in which a call fails.
enum class Outcome {
  fine,
  error_lacks_path,  ///< an error without path or reason
  lost,              ///< no checkpoint is left
  not_saved,         ///< no error, and no new checkpoint
  error_ignored,     ///< no error, although an essential call failed
  replaced_anyway,   ///< an error, but the checkpoint was replaced
  next_save_failed,  ///< the next save has the wrong result
  leftovers,         ///< the next save leaves files other than checkpoints
  too_few_calls,     ///< the save made fewer calls
};

using Fault = void (*)(int at, int error);

/// Calls whose failure is only a warning: removing a renamed folder that is no
/// longer needed, and closing files that were only read or locked.
bool may_fail(const std::string& call) {
  return call.starts_with("unlink ") || call.starts_with("close read ") ||
         call == "close tmp" || call == "rename tmp";
}

/// Saves with a failure at call number `at`, and then saves again.
Outcome save_twice(
    const fs::path& folder,
    const SaveCase& save_case,
    const Fault fault,
    const int at,
    const int error) {
  SavingRun run(folder, save_case);
  if (save_case.earlier > 0) {
    run.load();
  }
  run.step();
  if (save_case.without_flags) {
    refuse_rename_flags();
  }
  if (save_case.partial_writes) {
    split_writes();
  }
  fault(at, error);
  bool threw = false;
  try {
    run.save();
  } catch (const IoError& problem) {
    threw = true;
    if (!is_descriptive(problem, folder, error)) {
      return Outcome::error_lacks_path;
    }
  }
  if (disarm() < at) {
    return Outcome::too_few_calls;
  }
  const auto steps = undamaged_steps(folder);
  if (save_case.earlier > 0 && steps.empty()) {
    return Outcome::lost;
  }
  if (!threw && (steps.empty() || steps.back() != save_case.earlier + 1)) {
    return Outcome::not_saved;
  }
  if (!threw && fault == fail_at_call && !may_fail(failed_call())) {
    std::fprintf(
        stderr, "the failure of %s was not reported\n", failed_call().c_str());
    return Outcome::error_ignored;
  }
  if (threw && fault == fail_at_call && !steps.empty() &&
      steps.back() != save_case.earlier) {
    return Outcome::replaced_anyway;
  }
  run.step_and_save();
  if (!has_only_checkpoints(folder, save_case.replaces)) {
    return Outcome::leftovers;
  }
  return undamaged_steps(folder).back() == save_case.earlier + 2
             ? Outcome::fine
             : Outcome::next_save_failed;
}

class Crash : public testing::TestWithParam<SaveCase> {
 protected:
  Crash() {
    const int status = in_child([&] {
      SavingRun run(before_.path(), save_case_);
      for (int i = 0; i < save_case_.earlier; ++i) {
        run.step_and_save();
      }
      return 0;
    });
    EXPECT_EQ(code_of(status), 0);
  }

  /// Copies the result of the earlier saves.
  void start_over(const fs::path& folder) const {
    fs::remove_all(folder);
    fs::copy(before_.path(), folder, fs::copy_options::recursive);
  }

  /// Loads, trains, saves and loads again, which must succeed. Returns the step
  /// it found, or 50 when there was no checkpoint.
  int resume(const fs::path& folder) const {
    return code_of(in_child([&] {
      SavingRun run(folder, save_case_);
      int found = 50;
      try {
        found = static_cast<int>(run.load());
      } catch (const IoError&) {
        EXPECT_EQ(save_case_.earlier, 0);
      }
      run.step_and_save();
      if (!has_only_checkpoints(folder, save_case_.replaces)) {
        return 97;
      }
      SavingRun next(folder, save_case_);
      const auto expected = found == 50 ? 1 : found + 1;
      return next.load() == expected ? found : 98;
    }));
  }

  /// Fails a save at call `first`, then at every `stride`-th call after it.
  void expect_errors(
      const fs::path& folder,
      const Fault fault,
      const int error,
      const int first,
      const int stride) const {
    int at = first;
    for (;; at += stride) {
      start_over(folder);
      const int code = code_of(in_child([&] {
        return static_cast<int>(
            save_twice(folder, save_case_, fault, at, error));
      }));
      if (code == static_cast<int>(Outcome::too_few_calls)) {
        break;
      }
      ASSERT_EQ(code, 0) << errno_text(error) << " at call " << at;
    }
    EXPECT_GT(at, 25);
  }

  const SaveCase save_case_ = GetParam();
  const TemporaryDirectory before_;
};

TEST_P(Crash, LeavesTheOldCheckpointOrTheNew) {
  const TemporaryDirectory folder;
  int killed = 0;
  for (;; ++killed) {
    start_over(folder.path());
    const int status = in_child([&] {
      SavingRun run(folder.path(), save_case_);
      if (save_case_.earlier > 0) {
        run.load();
      }
      run.step();
      if (save_case_.without_flags) {
        refuse_rename_flags();
      }
      if (save_case_.partial_writes) {
        split_writes();
      }
      kill_at_call(killed + 1);
      run.save();
      return 0;
    });
    if (!was_killed(status)) {
      EXPECT_EQ(code_of(status), 0);
      break;
    }
    SCOPED_TRACE(testing::Message() << "killed at call " << killed + 1);
    const auto steps = undamaged_steps(folder.path());
    if (save_case_.earlier > 0) {
      ASSERT_FALSE(steps.empty());
      EXPECT_GE(steps.back(), save_case_.earlier);
      EXPECT_LE(steps.back(), save_case_.earlier + 1);
    }
    const int expected = steps.empty() ? 50 : static_cast<int>(steps.back());
    ASSERT_EQ(resume(folder.path()), expected);
  }
  // Files, folders, manifest and renames: a save makes at least this many
  // calls.
  EXPECT_GT(killed, 25);
}

TEST_P(Crash, AnErrorKeepsTheOldCheckpointAndTrainingContinues) {
  for (const int error : {ENOSPC, EIO, EROFS, EDQUOT}) {
    const TemporaryDirectory folder;
    // Tests every call for ENOSPC, and every seventh call for other errors.
    expect_errors(
        folder.path(), fail_from_call, error, 1, error == ENOSPC ? 1 : 7);
  }
}

std::string name_of_case(const testing::TestParamInfo<SaveCase>& test) {
  return "limit_" + std::to_string(test.param.total_limit) + "_after_" +
         std::to_string(test.param.earlier) +
         (test.param.blocking ? "_blocking" : "_background") +
         (test.param.replaces ? "_replacing" : "") +
         (test.param.without_flags ? "_without_flags" : "") +
         (test.param.partial_writes ? "_partial_writes" : "");
}

constexpr SaveCase kReplacing{
    .total_limit = 9, .earlier = 2, .blocking = true, .replaces = true};
constexpr SaveCase kReplacingWithoutFlags{
    .total_limit = 9,
    .earlier = 2,
    .blocking = false,
    .replaces = true,
    .without_flags = true};
constexpr SaveCase kPartialWrites{
    .total_limit = 1, .earlier = 2, .blocking = true, .partial_writes = true};

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
        SaveCase{2, 2, false},
        kReplacing,
        kReplacingWithoutFlags,
        kPartialWrites),
    name_of_case);

/// A folder in memory if possible: these tests make many calls.
class QuickFolder {
 public:
  QuickFolder() {
    std::string name = "/dev/shm/accelerate-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) {
      path_ = name;
    }
  }
  QuickFolder(const QuickFolder&) = delete;
  QuickFolder& operator=(const QuickFolder&) = delete;
  ~QuickFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const {
    return path_.empty() ? otherwise_.path() : path_;
  }

 private:
  fs::path path_;
  TemporaryDirectory otherwise_;
};

class OneError : public Crash {};

// Only one call fails. If several calls failed, an error that is ignored would
// be hidden by the next error.
TEST_P(OneError, IsReportedAtEveryCall) {
  const QuickFolder folder;
  expect_errors(folder.path(), fail_at_call, ENOSPC, 1, 1);
  int first = 0;
  for (const int error : {EIO, EROFS, EDQUOT}) {
    expect_errors(folder.path(), fail_at_call, error, ++first, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    OneError,
    testing::Values(
        SaveCase{1, 0, true},
        SaveCase{1, 2, false},
        SaveCase{2, 2, true},
        kReplacing,
        kReplacingWithoutFlags,
        kPartialWrites),
    name_of_case);

class Replacing : public testing::TestWithParam<SaveCase> {
 protected:
  /// Saves twice, with `fault` in between.
  template <typename Fault>
  int save_with(const Fault& fault) const {
    return code_of(in_child([&] {
      SavingRun run(folder_.path(), GetParam());
      run.step_and_save();
      run.step();
      if (GetParam().without_flags) {
        refuse_rename_flags();
      }
      return fault(run);
    }));
  }

  const TemporaryDirectory folder_;
  const fs::path last_ = folder_.path() / "checkpoints" / "last";
};

TEST_P(Replacing, SucceedsWhenTheOldOneCannotBeRemoved) {
  const int code = save_with([&](SavingRun& run) {
    protect_path(GetParam().without_flags ? "last.old-" : "checkpoint.tmp-");
    run.save();
    return read_manifest(last_).step == 2 ? 0 : 1;
  });

  EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    Replacing,
    testing::Values(
        SaveCase{
            .total_limit = 9, .earlier = 0, .blocking = true, .replaces = true},
        SaveCase{
            .total_limit = 9,
            .earlier = 0,
            .blocking = true,
            .replaces = true,
            .without_flags = true}),
    [](const auto& test) {
      return test.param.without_flags ? "in_two_steps" : "in_one_step";
    });

// The signals that a cluster's scheduler sends before preemption.
TEST(Preemption, SavesAtTheNextStepAndOnce) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const TemporaryDirectory folder;
    EXPECT_EQ(
        code_of(in_child([&] {
          SavingRun run(folder.path(), {1, 0, true});
          auto save = run.save_every({.steps = 1000});
          run.step();
          if (save()) {
            return 1;  // No signal was sent yet.
          }
          ::raise(signal);
          run.step();
          if (!save() || save()) {
            return 2;
          }
          return undamaged_steps(folder.path()) == std::vector<std::int64_t>{2}
                     ? 0
                     : 3;
        })),
        0)
        << ::strsignal(signal);
  }
}

// Returns whether the folder contains an undamaged checkpoint. Listing a folder
// takes time, so a listed checkpoint may have been replaced by a checkpoint
// that was not listed.
bool has_undamaged_checkpoint(const fs::path& folder) {
  bool found = false;
  for (int look = 0; look < 50 && !found; ++look) {
    found = !undamaged_steps(folder).empty();
  }
  return found;
}

/// Two processes that save ten times each.
void run_two_jobs(const fs::path& folder, const SaveCase& save_case) {
  const auto job = [&] {
    return in_child([&] {
      SavingRun run(folder, save_case);
      for (int i = 0; i < 10; ++i) {
        run.step_and_save();
        if (!has_undamaged_checkpoint(folder)) {
          return 1;
        }
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
}

TEST(TwoJobs, InOneFolderUseDifferentNumbers) {
  const TemporaryDirectory folder;
  run_two_jobs(folder.path(), {100, 0, true});
  EXPECT_EQ(undamaged_steps(folder.path()).size(), 20U);
}

TEST(TwoJobs, WithATotalLimitOfOneLeaveOne) {
  const TemporaryDirectory folder;
  run_two_jobs(folder.path(), {1, 0, true});
  const auto steps = undamaged_steps(folder.path());
  ASSERT_FALSE(steps.empty());
  EXPECT_LE(steps.size(), 2U);
  EXPECT_EQ(steps.back(), 10);
}

TEST(AbandonedFolders, DoNotBlockSavesWhenTheyCannotBeRemoved) {
  const TemporaryDirectory folder;
  const fs::path stale =
      folder.path() / "checkpoints" / "checkpoint.tmp-dead42";
  fs::create_directories(stale);
  std::ofstream(stale / ".lock") << "";
  const int status = in_child([&] {
    SavingRun run(folder.path(), {1, 0, true});
    run.step();
    protect_path("checkpoint.tmp-dead42");
    run.save();
    return undamaged_steps(folder.path()) == std::vector<std::int64_t>{1} ? 0
                                                                          : 1;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_TRUE(fs::exists(stale));
}

}  // namespace
}  // namespace accelerate
