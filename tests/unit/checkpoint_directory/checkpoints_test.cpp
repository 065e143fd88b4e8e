// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/checkpoints.h"

#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/staged_directory.h"
#include "support/temporary_directory.h"
#include "support/umask_guard.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Drops root privileges during its lifetime.
class UnprivilegedUser {
 public:
  UnprivilegedUser() {
    if (root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  UnprivilegedUser(const UnprivilegedUser&) = delete;
  UnprivilegedUser& operator=(const UnprivilegedUser&) = delete;
  ~UnprivilegedUser() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool root_ = ::geteuid() == 0;
};

Manifest make_checkpoint(const fs::path& parent) {
  StagedDirectory folder(parent);
  Manifest manifest;
  manifest.iteration = 4;
  manifest.files["run.json"] =
      write_checksummed(folder.path() / "run.json", "{}");
  folder.commit(manifest, "checkpoint_4", IfExists::refuse);
  return manifest;
}

TEST(Checkpoint, HonorsTheUmask) {
  for (const mode_t mask : {mode_t{077}, mode_t{002}}) {
    const TemporaryDirectory folder;
    const test::UmaskGuard umask(mask);

    make_checkpoint(folder.path());

    const fs::path saved = folder.path() / "checkpoint_4";
    EXPECT_EQ(test::mode_of(saved), 0777U & ~mask);
    EXPECT_EQ(test::mode_of(saved / "run.json"), 0666U & ~mask);
    EXPECT_EQ(test::mode_of(saved / "manifest.json"), 0666U & ~mask);
  }
}

// The root folder of a disk contains `lost+found`.
TEST(ListCheckpoints, SkipsUnreadableFolders) {
  const TemporaryDirectory folder;
  make_checkpoint(folder.path());
  fs::create_directory(folder.path() / "lost+found");
  ASSERT_EQ(::chmod((folder.path() / "lost+found").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const UnprivilegedUser nobody;

  EXPECT_EQ(list_checkpoints(folder.path()).size(), 1U);
  EXPECT_EQ(next_checkpoint_number(folder.path()), 5);
}

TEST(ListCheckpoints, ReportsACircularLink) {
  const TemporaryDirectory folder;
  const fs::path other = folder.path() / "other";
  fs::create_directory(other);
  fs::create_symlink("manifest.json", other / "manifest.json");

  const auto entries = list_checkpoints(folder.path());

  ASSERT_EQ(entries.size(), 1U);
  EXPECT_THAT(entries[0].problem, HasSubstr("is a symbolic link, not a file"));
}

// The names come from a manifest, which may be untrusted.
TEST(VerifyCheckpoint, ReportsFilesThatCannotBeRead) {
  const TemporaryDirectory folder;
  Manifest manifest = make_checkpoint(folder.path());
  fs::create_directory(folder.path() / "checkpoint_4" / "hooks");
  const std::string name = "hooks/" + std::string(300, 'x') + "/file";
  manifest.hook_files[name] = {};
  for (int i = 0; i < 40; ++i) {
    manifest.hook_files[name + std::to_string(i)] = {};
  }

  const auto damages = verify_checkpoint(
      folder.path() / "checkpoint_4", manifest, {.threads = 4});

  ASSERT_EQ(damages.size(), 41U);
  EXPECT_EQ(damages[0].file, name);
  EXPECT_EQ(damages[0].problem, "cannot be read: File name too long");
}

TEST(VerifyCheckpoint, ReportsFilesWithoutReadPermission) {
  const TemporaryDirectory folder;
  Manifest manifest = make_checkpoint(folder.path());
  const fs::path checkpoint = folder.path() / "checkpoint_4";
  fs::create_directories(checkpoint / "hooks" / "private");
  manifest.hook_files["hooks/private/file"] = {};
  ASSERT_EQ(::chmod((checkpoint / "hooks" / "private").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const UnprivilegedUser nobody;

  const auto damages = verify_checkpoint(checkpoint, manifest);

  ASSERT_EQ(damages.size(), 1U);
  EXPECT_EQ(damages[0].problem, "cannot be read: Permission denied");
}

}  // namespace
}  // namespace accelerate
