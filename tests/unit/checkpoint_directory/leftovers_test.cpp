// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/leftovers.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/staged_directory.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// A checkpoint with one file.
fs::path save_checkpoint(
    const fs::path& parent, const std::string& name, std::int64_t step) {
  StagedDirectory folder(parent);
  Manifest manifest;
  manifest.step = step;
  manifest.files["run.json"] =
      write_checksummed(folder.path() / "run.json", "{}");
  return folder.commit(manifest, name, IfExists::refuse);
}

/// The state after a writer died between its two renames.
fs::path make_replaced(
    const fs::path& parent, const std::string& name, std::int64_t step) {
  const fs::path checkpoint = save_checkpoint(parent, name, step);
  fs::path old = replaced_path(checkpoint);
  fs::rename(checkpoint, old);
  return old;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : list_checkpoints(folder)) {
    names.push_back(entry.path.filename().string());
  }
  return names;
}

/// The names of everything in a folder.
std::set<std::string> entries_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// Runs `work` in a process that then kills itself.
void run_and_kill(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(KilledWriter, LeavesNothingAfterTheNextCleanup) {
  const TemporaryDirectory folder;
  run_and_kill([&] {
    const StagedDirectory staged(folder.path());
    write_checksummed(staged.path() / "model.safetensors", "weights");
    ::raise(SIGKILL);
  });
  const auto left = temporary_folders(folder.path());
  ASSERT_EQ(left.size(), 1U);

  const CleanupResult result = remove_abandoned(folder.path());

  EXPECT_EQ(result.removed, std::vector{left[0].filename().string()});
  EXPECT_EQ(entries_of(folder.path()), std::set<std::string>{});
}

// The writer was killed before it created the folder or after it removed the
// folder.
TEST(KilledWriter, LeavesNoLockFile) {
  const TemporaryDirectory folder;
  run_and_kill([&] {
    const StagedDirectory staged(folder.path());
    fs::remove_all(staged.path());
    ::raise(SIGKILL);
  });
  ASSERT_EQ(entries_of(folder.path()).size(), 1U);

  remove_abandoned(folder.path());

  EXPECT_EQ(entries_of(folder.path()), std::set<std::string>{});
}

// Example: the old checkpoint after two folders were exchanged. Nothing in this
// folder was written recently, and the folder has no lock file.
TEST(LiveWriter, KeepsItsFolder) {
  const TemporaryDirectory folder;
  const StagedDirectory alive(folder.path());
  fs::last_write_time(
      alive.path(), fs::file_time_type::clock::now() - std::chrono::days(9));

  EXPECT_EQ(
      remove_abandoned(folder.path()).removed, std::vector<std::string>{});

  EXPECT_TRUE(fs::exists(alive.path()));
}

TEST(LiveWriter, RemovesItsLockLast) {
  const TemporaryDirectory folder;
  {
    const StagedDirectory discarded(folder.path());
  }
  EXPECT_EQ(entries_of(folder.path()), std::set<std::string>{});

  save_checkpoint(folder.path(), "last", 1);

  EXPECT_EQ(entries_of(folder.path()), std::set<std::string>{"last"});
}

TEST(KilledRemoval, IsCompletedByTheNextCleanup) {
  const TemporaryDirectory folder;
  const fs::path half = folder.path() / "checkpoint_3.tmp-removed-77";
  fs::create_directory(half);
  std::ofstream(half / "model.safetensors") << "weights";

  EXPECT_EQ(
      remove_abandoned(folder.path()).removed,
      std::vector{half.filename().string()});

  EXPECT_EQ(entries_of(folder.path()), std::set<std::string>{});
}

// The writer of the folder may be between the removal of the lock and the
// rename.
TEST(FolderOfVersion01, IsRemovedTenMinutesAfterTheLastChange) {
  const TemporaryDirectory folder;
  const fs::path stale = folder.path() / "checkpoint.tmp-aB12cD";
  fs::create_directory(stale);

  remove_abandoned(folder.path());
  EXPECT_TRUE(fs::exists(stale));

  fs::last_write_time(
      stale, fs::file_time_type::clock::now() - std::chrono::minutes(11));
  remove_abandoned(folder.path());
  EXPECT_FALSE(fs::exists(stale));
}

TEST(StagingLock, OfAnotherMachineCountsWhenNothingWasWrittenForADay) {
  using std::chrono::hours;
  const WriterEvidence held{.lock_is_held = true, .idle = hours(1000)};
  const WriterEvidence here{.lock_is_reliable = true};
  const WriterEvidence elsewhere{.idle = hours(23)};
  const WriterEvidence long_ago{.idle = hours(25)};

  EXPECT_FALSE(is_proof_of_death(held));
  EXPECT_TRUE(is_proof_of_death(here));
  EXPECT_FALSE(is_proof_of_death(elsewhere));
  EXPECT_TRUE(is_proof_of_death(long_ago));
}

TEST(ReplacedCheckpoint, IsRemovedWhenTheNewOneIsComplete) {
  const TemporaryDirectory folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  save_checkpoint(folder.path(), "last", 2);

  const CleanupResult result = remove_abandoned(folder.path());

  EXPECT_EQ(result.removed, std::vector{old.filename().string()});
  EXPECT_EQ(result.problems, std::vector<std::string>{});
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"last"});
}

TEST(ReplacedCheckpoint, StaysWhenTheNewOneIsDamaged) {
  const TemporaryDirectory folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  fs::remove(save_checkpoint(folder.path(), "last", 2) / "run.json");

  remove_abandoned(folder.path());

  EXPECT_EQ(read_manifest(old).step, 1);
}

TEST(ReplacedCheckpoint, GetsItsNameBackWhenTheNewOneIsMissing) {
  const TemporaryDirectory folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  EXPECT_EQ(names_in(folder.path()), std::vector{old.filename().string()});

  const CleanupResult result = remove_abandoned(folder.path());

  EXPECT_EQ(result.problems, std::vector<std::string>{});
  EXPECT_EQ(read_manifest(folder.path() / "last").step, 1);
  EXPECT_FALSE(fs::exists(old));
}

// The writer may be about to rename the new checkpoint.
TEST(ReplacedCheckpoint, StaysWhileAWriterIsActive) {
  const TemporaryDirectory folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  const StagedDirectory alive(folder.path());

  remove_abandoned(folder.path());

  EXPECT_TRUE(fs::exists(old));
  EXPECT_FALSE(fs::exists(folder.path() / "last"));
}

TEST(ReplacedCheckpoint, StaysWhenTheNewestIsUnknown) {
  const TemporaryDirectory folder;
  const fs::path first = make_replaced(folder.path(), "last", 1);
  const fs::path second = make_replaced(folder.path(), "last", 2);

  remove_abandoned(folder.path());

  EXPECT_TRUE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second));
}

// Folders whose names the user chose.
TEST(ReplacedCheckpoint, IsNotMistakenForASimilarName) {
  const TemporaryDirectory folder;
  save_checkpoint(folder.path(), "last", 2);
  save_checkpoint(folder.path(), "last.old-backup", 1);
  save_checkpoint(folder.path(), "last.old-0123456789abcdef", 1);
  fs::create_directory(folder.path() / "last.old-thesis");

  EXPECT_EQ(
      remove_abandoned(folder.path()).removed, std::vector<std::string>{});

  EXPECT_TRUE(fs::exists(folder.path() / "last.old-backup"));
  EXPECT_TRUE(fs::exists(folder.path() / "last.old-0123456789abcdef"));
  EXPECT_TRUE(fs::exists(folder.path() / "last.old-thesis"));
}

}  // namespace
}  // namespace accelerate
