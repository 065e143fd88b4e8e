// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/leftovers.h"

#include <chrono>
#include <fstream>

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

// Its writer may be about to rename the new checkpoint.
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
