// SPDX-License-Identifier: Apache-2.0
#include "xla/graph/program_store.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate::xla {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class XlaProgramStore : public testing::Test {
 protected:
  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }
  void overwrite(std::size_t position, char byte) const {
    std::fstream file(
        only_file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(position));
    file.put(byte);
  }

  TemporaryDirectory directory_;
  fs::path folder_ = directory_.path() / "programs";
  ProgramStore store_{folder_};
};

TEST_F(XlaProgramStore, ReturnsWhatWasSaved) {
  store_.save("key", "machine code");

  EXPECT_EQ(ProgramStore(folder_).load("key"), "machine code");
  EXPECT_EQ(store_.load("another key"), std::nullopt);
}

TEST_F(XlaProgramStore, IsPrivate) {
  store_.save("key", "machine code");

  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(
      fs::status(only_file()).permissions(),
      fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(XlaProgramStore, RefusesAFolderThatOthersCanWriteTo) {
  const fs::path open = directory_.path() / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);

  EXPECT_THAT(
      message_of<IoError>([&] { ProgramStore{open}; }),
      HasSubstr(open.string()));
}

TEST_F(XlaProgramStore, DropsADamagedProgram) {
  store_.save("key", "machine code");
  overwrite(fs::file_size(only_file()) - 3, '!');

  EXPECT_EQ(store_.load("key"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(XlaProgramStore, DropsATruncatedProgram) {
  store_.save("key", "machine code");
  fs::resize_file(only_file(), 10);

  EXPECT_EQ(store_.load("key"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace accelerate::xla
