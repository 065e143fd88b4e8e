// SPDX-License-Identifier: Apache-2.0
// A mapped file that is truncated while it is used. Removes a sanitizer's
// signal handler first, because it would end the program in a different way.
#include "base/mapped_file.h"

#include <csignal>
#include <cstdio>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

constexpr std::size_t kBytes = std::size_t{64} << 10;

class ShrinkingFile : public testing::Test {
 protected:
  // Reads a byte that the file no longer has.
  char read_after_truncation(MappedFile::Mode mode) const {
    MappedFile file(path_, mode);
    const MappedFile moved(std::move(file));
    std::filesystem::resize_file(path_, 10);
    return moved.text()[kBytes - 1];
  }

  const TemporaryDirectory folder_;
  const std::filesystem::path path_ =
      folder_.write("model.safetensors", std::string(kBytes, 'x'));
  const std::string message_ =
      "error: " + path_.string() + " cannot be read: it became shorter";
};

using ShrinkingFileDeathTest = ShrinkingFile;

TEST_F(ShrinkingFileDeathTest, IsNamedWhenTheProgramEnds) {
  for (const auto mode :
       {MappedFile::Mode::read_only, MappedFile::Mode::writable_copy}) {
    folder_.write("model.safetensors", std::string(kBytes, 'x'));
    EXPECT_EXIT(
        (std::signal(SIGBUS, SIG_DFL),
         std::putchar(read_after_truncation(mode))),
        KilledBySignal(SIGBUS),
        message_);
  }
}

TEST_F(ShrinkingFileDeathTest, IsNamedBeforeTheProgramsOwnHandlerRuns) {
  const auto run = [&] {
    std::signal(SIGBUS, [](int) {
      (void)!::write(STDERR_FILENO, "own handler", 11);
      ::_exit(7);
    });
    (void)std::putchar(read_after_truncation(MappedFile::Mode::read_only));
  };
  EXPECT_EXIT(run(), ExitedWithCode(7), message_ + "(.|\n)*own handler");
}

// The signal is sent by `kill`, or caused by memory that is not a mapped file.
TEST_F(ShrinkingFileDeathTest, OtherSignalsEndTheProgramAsUsual) {
  const auto run = [&] {
    std::signal(SIGBUS, SIG_DFL);
    const MappedFile file(path_, MappedFile::Mode::read_only);
    ::kill(::getpid(), SIGBUS);
    std::fputs("survived", stderr);
  };
  EXPECT_EXIT(run(), KilledBySignal(SIGBUS), "^$");
}

TEST_F(ShrinkingFileDeathTest, AnUnmappedFileIsNotNamed) {
  const auto run = [&] {
    std::signal(SIGBUS, SIG_DFL);
    {
      const MappedFile file(path_, MappedFile::Mode::read_only);
    }
    const auto other = folder_.write("other", std::string(kBytes, 'y'));
    const MappedFile second(other, MappedFile::Mode::read_only);
    std::filesystem::resize_file(other, 10);
    (void)std::putchar(second.text()[kBytes - 1]);
  };
  EXPECT_EXIT(run(), KilledBySignal(SIGBUS), "error: [^ ]*/other cannot be");
}

}  // namespace
}  // namespace accelerate
