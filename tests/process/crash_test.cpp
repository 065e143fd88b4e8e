// SPDX-License-Identifier: Apache-2.0
// Saves that are killed, or fail, at each call they make to the file system.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "folders/leftovers.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

/// Nothing that was replaced is left, apart from what a writer that lives
/// may still be busy with.
bool has_only_the_last(const fs::path& folder) {
  bool only = true;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    only = only && (name == "last" || is_temporary_name(name));
  }
  return only;
}

/// Whether an error says where it happened and what the system said.
bool names(const Error& problem, const fs::path& folder, const int error) {
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

/// What became of a save that was told to fail.
enum class Outcome {
  fine,
  unnamed,  ///< an error without path or reason
  lost,     ///< no checkpoint is left
  silent,   ///< no error, and no new checkpoint
  unheard,  ///< no error, though the call that failed mattered
  undone,   ///< an error, and another checkpoint under the name
  stuck,    ///< the next save is not what it should be
  untidy,   ///< the next save leaves what was replaced
  end,      ///< the save made fewer calls
};

using Fault = void (*)(int at, int error);

/// What costs no more than a warning: removing what nobody needs, after it has
/// lost its name, and closing files that were only read, or locked.
bool may_fail(const std::string& call) {
  return call.starts_with("unlink ") || call.starts_with("chmod ") ||
         call.starts_with("close read ") || call.starts_with("close .lock") ||
         call == "rename tmp";
}

/// A save whose call number `at` fails, and another one after it.
Outcome save_twice(
    const fs::path& folder,
    const SaveCase& how,
    const Fault fault,
    const int at,
    const int error) {
  SavingRun run(folder, how);
  if (how.earlier > 0) {
    run.load();
  }
  run.step();
  if (how.without_flags) {
    refuse_rename_flags();
  }
  if (how.torn) {
    tear_writes();
  }
  fault(at, error);
  bool threw = false;
  try {
    run.save();
  } catch (const IoError& problem) {
    threw = true;
    if (!names(problem, folder, error)) {
      return Outcome::unnamed;
    }
  }
  if (disarm() < at) {
    return Outcome::end;
  }
  const auto steps = whole_steps(folder);
  if (how.earlier > 0 && steps.empty()) {
    return Outcome::lost;
  }
  if (!threw && (steps.empty() || steps.back() != how.earlier + 1)) {
    return Outcome::silent;
  }
  if (!threw && fault == fail_at_call && !may_fail(failed_call())) {
    std::fprintf(stderr, "nobody heard of %s\n", failed_call().c_str());
    return Outcome::unheard;
  }
  if (threw && fault == fail_at_call && !steps.empty() &&
      steps.back() != how.earlier) {
    return Outcome::undone;
  }
  run.step_and_save();
  if (how.replaces && !has_only_the_last(folder)) {
    return Outcome::untidy;
  }
  return whole_steps(folder).back() == how.earlier + 2 ? Outcome::fine
                                                       : Outcome::stuck;
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
      if (how_.replaces && !has_only_the_last(folder)) {
        return 97;
      }
      SavingRun next(folder, how_);
      const auto expected = found == 50 ? 1 : found + 1;
      return next.load() == expected ? found : 98;
    }));
  }

  /// Fails a save at call `first`, then at every so manieth one after it.
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
        return static_cast<int>(save_twice(folder, how_, fault, at, error));
      }));
      if (code == static_cast<int>(Outcome::end)) {
        break;
      }
      ASSERT_EQ(code, 0) << errno_text(error) << " at call " << at;
    }
    EXPECT_GT(at, 25);
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
      if (how_.without_flags) {
        refuse_rename_flags();
      }
      if (how_.torn) {
        tear_writes();
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
    // Each call once, and for the other errors some of them.
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
         (test.param.torn ? "_torn" : "");
}

constexpr SaveCase kReplacing{
    .total_limit = 9, .earlier = 2, .blocking = true, .replaces = true};
constexpr SaveCase kReplacingWithoutFlags{
    .total_limit = 9,
    .earlier = 2,
    .blocking = false,
    .replaces = true,
    .without_flags = true};
constexpr SaveCase kTorn{
    .total_limit = 1, .earlier = 2, .blocking = true, .torn = true};

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
        kTorn),
    name_of_case);

/// In memory where that can be: here it is the calls that count, and there
/// are many of them.
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
  TemporaryFolder otherwise_;
};

class OneError : public Crash {};

// An error that nobody looked at would be hidden by the next one, had that
// come too.
TEST_P(OneError, IsSeenWhereverItComes) {
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
        kTorn),
    name_of_case);

class Replacing : public testing::TestWithParam<SaveCase> {
 protected:
  /// Saves a second time; `fault` comes in between.
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

  const TemporaryFolder folder_;
  const fs::path last_ = folder_.path() / "checkpoints" / "last";
};

TEST_P(Replacing, IsDoneThoughTheOldOneCannotBeRemoved) {
  const int code = save_with([&](SavingRun& run) {
    keep_path(GetParam().without_flags ? "last.old-" : "checkpoint.tmp-");
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
      return test.param.without_flags ? "in_two_steps" : "in_one";
    });

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

// There is one at any time, but a look at a folder takes a while: the one it
// saw may have gone, for one that it did not see.
bool has_whole_one(const fs::path& folder) {
  bool found = false;
  for (int look = 0; look < 50 && !found; ++look) {
    found = !whole_steps(folder).empty();
  }
  return found;
}

/// Two processes that save ten times each.
void run_two_jobs(const fs::path& folder, const SaveCase& how) {
  const auto job = [&] {
    return in_child([&] {
      SavingRun run(folder, how);
      for (int i = 0; i < 10; ++i) {
        run.step_and_save();
        if (!has_whole_one(folder)) {
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

TEST(TwoJobs, InOneFolderTakeNumbersOfTheirOwn) {
  const TemporaryFolder folder;
  run_two_jobs(folder.path(), {100, 0, true});
  EXPECT_EQ(whole_steps(folder.path()).size(), 20U);
}

TEST(TwoJobs, ThatKeepOneCheckpointLeaveOne) {
  const TemporaryFolder folder;
  run_two_jobs(folder.path(), {1, 0, true});
  const auto steps = whole_steps(folder.path());
  ASSERT_FALSE(steps.empty());
  EXPECT_LE(steps.size(), 2U);
  EXPECT_EQ(steps.back(), 10);
}

TEST(Abandoned, FoldersThatCannotBeRemovedAreInNobodysWay) {
  const TemporaryFolder folder;
  const fs::path stale =
      folder.path() / "checkpoints" / "checkpoint.tmp-dead42";
  fs::create_directories(stale);
  std::ofstream(stale / ".lock") << "";
  const int status = in_child([&] {
    SavingRun run(folder.path(), {1, 0, true});
    run.step();
    keep_path("checkpoint.tmp-dead42");
    run.save();
    return whole_steps(folder.path()) == std::vector<std::int64_t>{1} ? 0 : 1;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_TRUE(fs::exists(stale));
}

}  // namespace
}  // namespace accelerate
