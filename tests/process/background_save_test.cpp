// SPDX-License-Identifier: Apache-2.0
// Background saves during training.
#include <cerrno>
#include <chrono>
#include <fstream>
#include <future>
#include <iostream>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "checkpoint/writer.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

// The write waits until training has continued. If the save waited for the
// write, the test would hang.
TEST(BackgroundSave, DoesNotBlockTrainingWhenTheDiskIsSlow) {
  const TemporaryDirectory folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        std::latch trained(1);
        SavingRun run(folder.path(), {1, 0, false});
        block_first_write([&] { trained.wait(); });
        run.save_in_background();
        run.step();
        trained.count_down();
        run.save();
        return undamaged_steps(folder.path()) == std::vector<std::int64_t>{2}
                   ? 0
                   : 1;
      })),
      0);
}

TEST(BackgroundSave, BlocksTheNextSave) {
  const TemporaryDirectory folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        std::latch asked(1);
        SavingRun run(folder.path(), {2, 0, false});
        block_first_write([&] { asked.wait(); });
        run.save_in_background();
        auto second =
            std::async(std::launch::async, [&] { run.save_in_background(); });
        // The second save cannot finish before the first save.
        const bool waits = second.wait_for(std::chrono::milliseconds(100)) ==
                           std::future_status::timeout;
        asked.count_down();
        second.get();
        run.finish();
        return waits && undamaged_steps(folder.path()) ==
                            std::vector<std::int64_t>{1, 2}
                   ? 0
                   : 1;
      })),
      0);
}

TEST(BackgroundSave, IsFinishedByTheDestructorOfTheAccelerator) {
  const TemporaryDirectory folder;
  EXPECT_EQ(
      code_of(in_child([&] {
        {
          SavingRun run(folder.path(), {1, 0, false});
          run.save_in_background();
        }
        return undamaged_steps(folder.path()) == std::vector<std::int64_t>{1}
                   ? 0
                   : 1;
      })),
      0);
}

TEST(BackgroundSave, ReportsAnErrorInTheNextCallAndAtTheEnd) {
  for (const bool at_end : {false, true}) {
    const TemporaryDirectory folder;
    EXPECT_EQ(
        code_of(in_child([&] {
          SavingRun run(folder.path(), {1, 0, false});
          fail_from_call(1, EIO);
          run.save_in_background();
          try {
            at_end ? run.finish() : run.save_in_background();
            return 1;
          } catch (const IoError&) {
            disarm();
            // The error is thrown only once, and the run continues.
            run.step_and_save();
            return undamaged_steps(folder.path()).size() == 1 ? 0 : 2;
          }
        })),
        0)
        << at_end;
  }
}

// A long wait reports the checkpoint.
TEST(SlowDisk, IsReportedWhenTrainingWaitsForIt) {
  const TemporaryDirectory folder;
  const fs::path messages = folder.path() / "messages";
  EXPECT_EQ(
      code_of(in_child([&] {
        std::latch reached(1);
        std::latch waited(1);
        CheckpointContents contents;
        contents.rank_state["x"] = torch::ones({1});
        CheckpointWriter writer(
            Group(),
            std::make_shared<Staging>(),
            std::chrono::milliseconds(20));
        block_first_write([&] {
          reached.count_down();
          waited.wait();
        });
        writer.save_in_background(
            contents, {.parent = folder.path(), .name = "slow"});
        reached.wait();  // The warning is also a write.
        std::ofstream out(messages);
        auto* before = std::cerr.rdbuf(out.rdbuf());
        // The disk responds after the warning has been printed.
        const std::jthread disk([&] {
          while (fs::file_size(messages) == 0) {
            std::this_thread::yield();
          }
          waited.count_down();
        });
        writer.wait();
        std::cerr.rdbuf(before);
        return fs::exists(folder.path() / "slow" / kManifestFile) ? 0 : 1;
      })),
      0);
  std::ifstream in(messages);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(
      text,
      testing::HasSubstr(
          " s for the checkpoint " + (folder.path() / "slow").string() +
          " to be written; the disk may be slow or disconnected"));
}

}  // namespace
}  // namespace accelerate
