// SPDX-License-Identifier: Apache-2.0
#include "folders/checkpoints.h"

#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folders/staged_folder.h"
#include "folders/summed_file.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Without root's rights as long as it lives.
class Nobody {
 public:
  Nobody() {
    if (root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;
  ~Nobody() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool root_ = ::geteuid() == 0;
};

Manifest make_checkpoint(const fs::path& parent) {
  StagedFolder folder(parent);
  Manifest manifest;
  manifest.iteration = 4;
  manifest.files["run.json"] = write_summed(folder.path() / "run.json", "{}");
  folder.commit(manifest, "checkpoint_4", Existing::refuse);
  return manifest;
}

// Every disk of its own has a `lost+found`.
TEST(ListCheckpoints, PassesOverFoldersOfOthers) {
  const TemporaryFolder folder;
  make_checkpoint(folder.path());
  fs::create_directory(folder.path() / "lost+found");
  ASSERT_EQ(::chmod((folder.path() / "lost+found").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const Nobody nobody;

  EXPECT_EQ(list_checkpoints(folder.path()).size(), 1U);
  EXPECT_EQ(next_checkpoint_number(folder.path()), 5);
}

TEST(ListCheckpoints, SaysWhatIsWrongWithALinkInACircle) {
  const TemporaryFolder folder;
  const fs::path other = folder.path() / "other";
  fs::create_directory(other);
  fs::create_symlink("manifest.json", other / "manifest.json");

  const auto entries = list_checkpoints(folder.path());

  ASSERT_EQ(entries.size(), 1U);
  EXPECT_THAT(entries[0].problem, HasSubstr("is a link, not a file"));
}

// The names are those of a manifest, which may be anybody's.
TEST(VerifyCheckpoint, NamesFilesThatCannotBeLookedAt) {
  const TemporaryFolder folder;
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
  EXPECT_EQ(damages[0].what, "cannot be read: File name too long");
}

TEST(VerifyCheckpoint, SaysWhoseFilesItMayNotRead) {
  const TemporaryFolder folder;
  Manifest manifest = make_checkpoint(folder.path());
  const fs::path checkpoint = folder.path() / "checkpoint_4";
  fs::create_directories(checkpoint / "hooks" / "mine");
  manifest.hook_files["hooks/mine/file"] = {};
  ASSERT_EQ(::chmod((checkpoint / "hooks" / "mine").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const Nobody nobody;

  const auto damages = verify_checkpoint(checkpoint, manifest);

  ASSERT_EQ(damages.size(), 1U);
  EXPECT_EQ(damages[0].what, "cannot be read: Permission denied");
}

}  // namespace
}  // namespace accelerate
