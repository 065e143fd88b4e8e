// SPDX-License-Identifier: Apache-2.0
// Full disks, and folders that disappear.
#include <fstream>
#include <string>

#include <sched.h>
#include <sys/mount.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

constexpr int kCannotMount = 77;

/// Mounts a disk of 1 MiB at `folder`, visible only to this process.
bool mount_small_disk(const fs::path& folder) {
  const bool apart = ::unshare(CLONE_NEWNS) == 0 ||
                     ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
  return apart &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

/// The error message of a save; empty when there is none.
std::string error_of(const std::function<void()>& save) {
  try {
    save();
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

class FullDisk : public testing::TestWithParam<bool> {};

// A checkpoint has 240 KB of weights and optimizer state, so two checkpoints
// fit on the disk, but not three.
TEST_P(FullDisk, KeepsEarlierCheckpointsAndTrainingContinues) {
  const TemporaryDirectory folder;
  const int code = code_of(in_child([&] {
    if (!mount_small_disk(folder.path())) {
      return kCannotMount;
    }
    SavingRun run(
        folder.path(),
        {.total_limit = 5,
         .earlier = 0,
         .blocking = GetParam(),
         .width = 10000});
    run.step_and_save();
    std::ofstream ballast(folder.path() / "ballast", std::ios::binary);
    ballast << std::string(600 << 10, 'x') << std::flush;
    const std::string error = error_of([&] { run.step_and_save(); });
    if (error.find(folder.path().string()) == std::string::npos ||
        error.find("No space left on device") == std::string::npos) {
      std::fprintf(stderr, "the error: %s\n", error.c_str());
      return 1;
    }
    if (undamaged_steps(folder.path()) != std::vector<std::int64_t>{1}) {
      return 2;
    }
    ballast.close();
    fs::remove(folder.path() / "ballast");
    run.step_and_save();
    return undamaged_steps(folder.path()) == std::vector<std::int64_t>{1, 3}
               ? 0
               : 3;
  }));
  if (code == kCannotMount) {
    GTEST_SKIP() << "cannot mount a small disk";
  }
  EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, FullDisk, testing::Bool(), [](const auto& test) {
      return test.param ? "blocking" : "background";
    });

class VanishedFolder : public testing::TestWithParam<bool> {};

// The folder is moved away while a save writes into it.
TEST_P(VanishedFolder, IsReportedAndRecreated) {
  const TemporaryDirectory folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        SavingRun run(folder.path(), {2, 0, GetParam()});
        run.step_and_save();
        block_first_write([&] {
          fs::rename(
              folder.path() / "checkpoints", folder.path() / "elsewhere");
        });
        const std::string error = error_of([&] { run.step_and_save(); });
        if (error.find((folder.path() / "checkpoints").string()) ==
            std::string::npos) {
          std::fprintf(stderr, "the error: %s\n", error.c_str());
          return 1;
        }
        fs::create_directories(folder.path() / "old");
        fs::rename(
            folder.path() / "elsewhere", folder.path() / "old" / "checkpoints");
        if (undamaged_steps(folder.path() / "old") !=
            std::vector<std::int64_t>{1}) {
          return 2;
        }
        run.step_and_save();
        return undamaged_steps(folder.path()) == std::vector<std::int64_t>{3}
                   ? 0
                   : 3;
      })),
      0);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, VanishedFolder, testing::Bool(), [](const auto& test) {
      return test.param ? "blocking" : "background";
    });

}  // namespace
}  // namespace accelerate
