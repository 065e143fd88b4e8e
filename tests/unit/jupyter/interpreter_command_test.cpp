// SPDX-License-Identifier: Apache-2.0
// The precompiled header of C++ notebooks, with a compiler that never exits.
#include "jupyter/interpreter_command.h"

#include <chrono>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "jupyter/completion.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate::jupyter {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class SlowCompiler : public testing::Test {
 protected:
  SlowCompiler() {
    const auto compiler =
        folder_.write("bin/clang++-19", "#!/bin/sh\nexec sleep 1000\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    setup_.environment = Environment(
        {{"PATH", (folder_.path() / "bin").string()},
         {"XDG_CACHE_HOME", (folder_.path() / "cache").string()}});
    setup_.plain = true;
  }

  TemporaryDirectory folder_;
  InterpreterSetup setup_;
};

TEST_F(SlowCompiler, IsKilledAfterTheTimeout) {
  EXPECT_EQ(
      message_of<ConfigError>(
          [&] { (void)precompiled_header(setup_, milliseconds(200)); }),
      "the headers for C++ notebooks did not compile within 0.2 s");
  EXPECT_EQ(existing_header(setup_), std::nullopt);
}

TEST_F(SlowCompiler, InAnotherProcessIsAwaitedUntilTheTimeout) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW((void)precompiled_header(setup_, milliseconds(50)), ConfigError);
  std::filesystem::path lock_file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder_.path() / "cache")) {
    lock_file = entry.path().filename() == "lock" ? entry.path() : lock_file;
  }
  const FileLock held(lock_file, milliseconds(0));

  EXPECT_THROW((void)precompiled_header(setup_, milliseconds(50)), IoError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

// Another user of a shared cache folder leaves a header for the interpreter.
TEST_F(SlowCompiler, RefusesAHeaderThatAnotherUserCouldHaveWritten) {
  EXPECT_THROW((void)precompiled_header(setup_, milliseconds(50)), ConfigError);
  const auto root = folder_.path() / "cache" / "accelerate-cpp";
  for (const auto& entry :
       std::filesystem::directory_iterator(root / "notebook")) {
    std::ofstream(entry.path() / "notebook.pch") << "planted";
  }
  EXPECT_NE(existing_header(setup_), std::nullopt);
  std::filesystem::permissions(root, std::filesystem::perms(0777));

  const std::string refusal =
      root.string() + " is not a folder that only this user can access";
  EXPECT_EQ(
      message_of<IoError>([&] { (void)precompiled_header(setup_); }), refusal);
  EXPECT_EQ(
      message_of<IoError>([&] { (void)existing_header(setup_); }), refusal);
}

// The kernel completes names on the thread that answers the heartbeat.
TEST_F(SlowCompiler, LeavesCompletionEmpty) {
  const auto begin = std::chrono::steady_clock::now();

  const Completion found = complete(setup_, {}, "int a_na", 8);

  EXPECT_TRUE(found.matches.empty());
  EXPECT_EQ(found.begin, 4u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// Uses a fake compiler that lists its input files as another user would see
// them.
TEST(Completion, KeepsTheCellsPrivate) {
  const TemporaryDirectory folder;
  const auto compiler = folder.write(
      "bin/clang++-19",
      "#!/bin/sh\n"
      "for last; do :; done\n"
      "case $last in *.new) : > \"$last\"; exit;; esac\n"
      "stat -c '%a' \"$last\" \"$(dirname \"$last\")\" > \"" +
          (folder.path() / "modes").string() +
          "\"\n"
          "echo \"$last\" >> \"" +
          (folder.path() / "names").string() +
          "\"\n"
          "cat \"$last\" > \"" +
          (folder.path() / "cells").string() +
          "\"\n"
          "echo 'COMPLETION: value_one : [#int#]value_one'\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  std::filesystem::create_directory(folder.path() / "tmp");
  InterpreterSetup setup;
  setup.environment = Environment(
      {{"PATH", (folder.path() / "bin").string() + ":/usr/bin:/bin"},
       {"TMPDIR", (folder.path() / "tmp").string()},
       {"XDG_CACHE_HOME", (folder.path() / "cache").string()}});
  setup.plain = true;
  (void)precompiled_header(setup);

  for (int i = 0; i < 2; ++i) {
    const Completion found =
        complete(setup, {"int value_one = 1;"}, "int a = va", 10);
    EXPECT_THAT(found.matches, testing::ElementsAre("value_one"));
  }

  EXPECT_EQ(folder.read("cells"), "int value_one = 1;\nint a = va");
  EXPECT_EQ(folder.read("modes"), "600\n700\n");
  std::istringstream names(folder.read("names"));
  std::string first;
  std::string second;
  names >> first >> second;
  EXPECT_NE(first, second) << "the name can be predicted";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "tmp"));
}

}  // namespace
}  // namespace accelerate::jupyter
