// SPDX-License-Identifier: Apache-2.0
#include "folders/leftovers.h"

#include <chrono>
#include <fstream>

#include <gtest/gtest.h>

#include "folders/checkpoints.h"
#include "folders/staged_folder.h"
#include "folders/summed_file.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// A checkpoint with one file.
fs::path save_checkpoint(
    const fs::path& parent, const std::string& name, std::int64_t step) {
  StagedFolder folder(parent);
  Manifest manifest;
  manifest.step = step;
  manifest.files["run.json"] = write_summed(folder.path() / "run.json", "{}");
  return folder.commit(manifest, name, Existing::refuse);
}

/// As a writer leaves it that dies between its two renames.
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

TEST(Replaced, GoesWhenTheNewOneIsComplete) {
  const TemporaryFolder folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  save_checkpoint(folder.path(), "last", 2);

  const Abandoned found = remove_abandoned(folder.path());

  EXPECT_EQ(found.removed, std::vector{old.filename().string()});
  EXPECT_EQ(found.problems, std::vector<std::string>{});
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"last"});
}

TEST(Replaced, StaysWhenTheNewOneIsDamaged) {
  const TemporaryFolder folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  fs::remove(save_checkpoint(folder.path(), "last", 2) / "run.json");

  remove_abandoned(folder.path());

  EXPECT_EQ(read_manifest(old).step, 1);
}

TEST(Replaced, GetsItsNameBackWhenTheNewOneNeverCame) {
  const TemporaryFolder folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  EXPECT_EQ(names_in(folder.path()), std::vector{old.filename().string()});

  const Abandoned found = remove_abandoned(folder.path());

  EXPECT_EQ(found.problems, std::vector<std::string>{});
  EXPECT_EQ(read_manifest(folder.path() / "last").step, 1);
  EXPECT_FALSE(fs::exists(old));
}

// Its writer may be about to give the name to the new one.
TEST(Replaced, WaitsForWritersThatLive) {
  const TemporaryFolder folder;
  const fs::path old = make_replaced(folder.path(), "last", 1);
  const StagedFolder alive(folder.path());

  remove_abandoned(folder.path());

  EXPECT_TRUE(fs::exists(old));
  EXPECT_FALSE(fs::exists(folder.path() / "last"));
}

TEST(Replaced, StayWhenItIsNotClearWhichIsTheNewest) {
  const TemporaryFolder folder;
  const fs::path one = make_replaced(folder.path(), "last", 1);
  const fs::path other = make_replaced(folder.path(), "last", 2);

  remove_abandoned(folder.path());

  EXPECT_TRUE(fs::exists(one));
  EXPECT_TRUE(fs::exists(other));
}

// Copies under names of the user's own.
TEST(Replaced, IsNothingThatOnlyLooksLikeIt) {
  const TemporaryFolder folder;
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
