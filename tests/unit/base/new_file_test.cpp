// SPDX-License-Identifier: Apache-2.0
// Permissions of new files and folders.
#include "base/new_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "support/umask_guard.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using test::mode_of;
using test::UmaskGuard;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

TEST(NewFile, HonorsTheUmask) {
  for (const mode_t mask : {mode_t{077}, mode_t{022}, mode_t{002}}) {
    const TemporaryDirectory folder;
    const UmaskGuard umask(mask);
    const std::string prefix = (folder.path() / "new-").string();

    write_file(folder.path() / "written", "text");
    const FileLock lock(folder.path() / "lock", std::chrono::milliseconds(0));

    EXPECT_EQ(mode_of(create_file(prefix).path), 0666U & ~mask);
    EXPECT_EQ(mode_of(create_folder(prefix)), 0777U & ~mask);
    EXPECT_EQ(mode_of(folder.path() / "written"), 0666U & ~mask);
    EXPECT_EQ(mode_of(folder.path() / "lock"), 0666U & ~mask);
  }
}

TEST(NewFile, KeepsASecretPrivate) {
  const TemporaryDirectory folder;
  const UmaskGuard umask(0);

  write_file(folder.path() / "secret", "text", 0600);

  EXPECT_EQ(mode_of(folder.path() / "secret"), 0600U);
}

TEST(NewFile, NamesAFolderThatDoesNotExist) {
  EXPECT_THAT(
      message_of<IoError>([] { (void)create_file("/no/such/folder/x-"); }),
      HasSubstr("cannot create /no/such/folder/x-: No such file"));
}

class PrivateFolder : public testing::Test {
 protected:
  std::string problem() {
    return message_of<IoError>([&] { make_private_folder(path_, "TMPDIR"); });
  }
  std::string refusal() const {
    return path_.string() + " is not a folder that only this user can access";
  }
  std::string replaceable() const {
    return "other users can replace " + path_.string() +
           ", because they can write to " + path_.parent_path().string();
  }

  const TemporaryDirectory folder_;
  const fs::path path_ = folder_.path() / "parent/private";
};

TEST_F(PrivateFolder, IsCreatedAndKept) {
  const UmaskGuard umask(0);

  make_private_folder(path_, "TMPDIR");
  make_private_folder(path_, "TMPDIR");

  EXPECT_EQ(mode_of(path_), 0700U);
}

TEST_F(PrivateFolder, IsMadePrivateIfOthersCouldOnlyRead) {
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms(0755));

  make_private_folder(path_, "TMPDIR");

  EXPECT_EQ(mode_of(path_), 0700U);
}

TEST_F(PrivateFolder, IsRefusedIfOthersCouldWrite) {
  fs::create_directories(path_);
  for (const unsigned mode : {0770U, 0707U, 01777U}) {
    fs::permissions(path_, fs::perms(mode));
    EXPECT_EQ(problem(), refusal());
  }
}

// A user who can rename the folder can put another folder in its place.
TEST_F(PrivateFolder, IsRefusedIfOthersCouldReplaceIt) {
  make_private_folder(path_, "TMPDIR");

  fs::permissions(path_.parent_path(), fs::perms(0777));
  EXPECT_EQ(problem(), replaceable());

  fs::permissions(path_.parent_path(), fs::perms(01777));
  EXPECT_NO_THROW(make_private_folder(path_, "TMPDIR"));
}

// The group of a user's own files often has the user's number and no other
// members, and the umask then allows this group to write.
TEST_F(PrivateFolder, IsRefusedIfAGroupCouldReplaceIt) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder to another group";
  }
  make_private_folder(path_, "TMPDIR");
  fs::permissions(path_.parent_path(), fs::perms(0775));
  EXPECT_NO_THROW(make_private_folder(path_, "TMPDIR"));

  ASSERT_EQ(::chown(path_.parent_path().c_str(), 0, kNobody), 0);
  fs::permissions(path_.parent_path(), fs::perms(0775));

  EXPECT_EQ(problem(), replaceable());
}

TEST_F(PrivateFolder, HasPrivateParentsIfTheyDidNotExist) {
  const UmaskGuard umask(0);

  make_private_folder(path_, "TMPDIR");

  EXPECT_EQ(mode_of(path_.parent_path()), 0700U);
}

TEST_F(PrivateFolder, IsRefusedIfItIsALink) {
  fs::create_directories(folder_.path() / "target");
  fs::permissions(folder_.path() / "target", fs::perms(0700));
  fs::create_directories(path_.parent_path());
  fs::create_directory_symlink(folder_.path() / "target", path_);

  EXPECT_EQ(problem(), refusal());
}

TEST_F(PrivateFolder, IsRefusedIfItBelongsToAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can create a folder of another user";
  }
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms(0700));
  ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);

  EXPECT_EQ(problem(), refusal());
}

}  // namespace
}  // namespace accelerate
