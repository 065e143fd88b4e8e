// SPDX-License-Identifier: Apache-2.0
// The state of the disk when a machine loses power during a save.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "checkpoint_directory/local_disk.h"
#include "process/saving_run.h"
#include "support/fault_points.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

/// The file-system calls of a child process, in order.
class Calls {
 public:
  explicit Calls(const fs::path& file) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      lines_.push_back(line);
    }
  }

  /// Writes the recorded calls to a file. Called in the child process.
  static void write(const fs::path& file) {
    std::ofstream out(file);
    for (const std::string& call : recorded_calls()) {
      out << call << "\n";
    }
  }

  std::size_t first(const std::string& call) const {
    return static_cast<std::size_t>(
        std::find(lines_.begin(), lines_.end(), call) - lines_.begin());
  }
  std::size_t last(const std::string& call) const {
    const auto found = std::find(lines_.rbegin(), lines_.rend(), call);
    return static_cast<std::size_t>(lines_.rend() - found) - 1;
  }
  /// Expects that the first call of each kind comes before the first call of
  /// the next kind.
  void expect_order(const std::vector<std::string>& order) const {
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_TRUE(has(order[i])) << order[i];
      if (i > 0) {
        EXPECT_LT(first(order[i - 1]), first(order[i])) << order[i];
      }
    }
  }
  bool has(const std::string& call) const {
    return first(call) != lines_.size();
  }
  std::set<std::string> written() const {
    std::set<std::string> names;
    for (const std::string& line : lines_) {
      // The lock is not part of the checkpoint.
      if (line.starts_with("write ") && line != "write tmp") {
        names.insert(line.substr(6));
      }
    }
    return names;
  }

 private:
  std::vector<std::string> lines_;
};

/// A machine that loses power loses unsynced data, but a killed process does
/// not. The tests therefore check the order of the calls.
class Durability : public testing::TestWithParam<SaveCase> {
 protected:
  /// The calls of a second save.
  Calls calls_of_save() const {
    const TemporaryDirectory notes;
    EXPECT_EQ(
        code_of(in_child([&] {
          SavingRun run(folder_.path(), GetParam());
          run.step_and_save();
          run.step();
          record_calls();
          run.save();
          Calls::write(notes.path() / "calls");
          return 0;
        })),
        0);
    return Calls(notes.path() / "calls");
  }

  const TemporaryDirectory folder_;
};

TEST_P(Durability, SyncsEachPartBeforeTheNext) {
  const Calls calls = calls_of_save();

  const auto files = calls.written();
  EXPECT_GT(files.size(), 5U);
  for (const std::string& file : files) {
    ASSERT_TRUE(calls.has("fsync " + file)) << file;
    EXPECT_GT(calls.first("fsync " + file), calls.last("write " + file));
    EXPECT_LE(calls.first("fsync " + file), calls.first("fsync manifest.json"));
    if (file != "manifest.json") {
      EXPECT_LT(
          calls.first("fsync " + file), calls.first("write manifest.json"));
    }
  }
  calls.expect_order(
      {"fsync manifest.json",
       "fsync tmp",
       "rename checkpoint_1",
       "fsync checkpoints",
       "rename tmp",  // The old checkpoint is renamed.
       "unlink manifest.json"});
}

TEST_P(Durability, SyncsHookFiles) {
  const Calls calls = calls_of_save();

  EXPECT_EQ(calls.written().contains("notes.txt"), GetParam().hooks);
  if (GetParam().hooks) {
    calls.expect_order(
        {"write notes.txt",
         "fsync notes.txt",
         "write manifest.json",
         "rename checkpoint_1"});
    for (const char* folder : {"fsync adapter", "fsync hooks"}) {
      calls.expect_order({folder, "write manifest.json"});
    }
  }
}

/// Whether files in this folder support direct I/O.
bool supports_direct_io(const fs::path& folder) {
  const fs::path file = folder / "probe";
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return fd && is_on_local_disk(file) &&
         ::fcntl(fd.get(), F_SETFL, O_DIRECT) == 0;
}

// Ensures that this suite tests direct I/O in background saves.
TEST_P(Durability, BackgroundSavesUseDirectIo) {
  const bool expected =
      !GetParam().blocking && supports_direct_io(folder_.path());

  EXPECT_EQ(calls_of_save().has("direct model.safetensors"), expected);
}

// The weights fill more than a page, because only whole pages use direct I/O.
INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    Durability,
    testing::Values(
        SaveCase{.total_limit = 1, .earlier = 0, .blocking = true},
        SaveCase{
            .total_limit = 1, .earlier = 0, .blocking = false, .width = 3001},
        SaveCase{
            .total_limit = 1, .earlier = 0, .blocking = true, .hooks = true},
        SaveCase{
            .total_limit = 1,
            .earlier = 0,
            .blocking = false,
            .width = 3001,
            .hooks = true}),
    [](const auto& test) {
      return std::string(test.param.blocking ? "blocking" : "background") +
             (test.param.hooks ? "_with_hooks" : "");
    });

TEST(NewFolders, AreSyncedInTheirParentsFirst) {
  const TemporaryDirectory folder;
  const TemporaryDirectory notes;
  ASSERT_EQ(
      code_of(in_child([&] {
        SavingRun run(folder.path() / "runs" / "first", {1, 0, true});
        record_calls();
        run.save();
        Calls::write(notes.path() / "calls");
        return 0;
      })),
      0);

  const Calls calls(notes.path() / "calls");
  const std::string top = folder.path().filename().string();
  for (const std::string& parent :
       {top, std::string("runs"), std::string("first")}) {
    EXPECT_TRUE(calls.has("fsync " + parent)) << parent;
    EXPECT_LT(
        calls.first("fsync " + parent), calls.first("rename checkpoint_0"));
  }
}

}  // namespace
}  // namespace accelerate
