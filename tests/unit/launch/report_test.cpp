// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "launch/failure.h"
#include "launch/memory_kill.h"
#include "launch/signals.h"

namespace accelerate {
namespace {

Failure example() {
  Failure failure;
  failure.rank = 3;
  failure.host = "node-b";
  failure.pid = 88214;
  failure.signal = SIGKILL;
  failure.seconds = 41.2;
  failure.num_processes = 8;
  failure.others_stopped = 7;
  failure.status = "step 120";
  failure.last_lines = {"step 120  loss 2.3107"};
  failure.log_path = "runs/x/rank_3.*.log";
  return failure;
}

TEST(FailureReport, NamesTheFirstRankAndWhatToDo) {
  const Failure failure = example();

  EXPECT_EQ(
      failure_title(failure),
      "rank 3 failed first, 41 s into the run; the other 7 were stopped");
  EXPECT_EQ(
      failure_body(failure),
      "  rank 3 on node-b, pid 88214: killed by SIGKILL; it was last at: step "
      "120\n  its last line:\n    step 120  loss 2.3107\n");
  EXPECT_EQ(
      failure_hints(failure),
      (std::vector<std::string>{
          "a SIGKILL with no message is usually the kernel's memory killer; "
          "see `dmesg -T | tail` on node-b",
          "full output of rank 3: runs/x/rank_3.*.log"}));
}

TEST(FailureReport, SaysWhenItWasTheMemoryKiller) {
  Failure failure = example();
  failure.memory_kill = true;

  EXPECT_NE(
      failure_body(failure).find(
          "killed by SIGKILL by the kernel, because memory ran out"),
      std::string::npos);
}

TEST(FailureReport, CountsTheOthers) {
  Failure failure = example();
  failure.others_stopped = 4;
  failure.others_failed = 2;

  EXPECT_EQ(
      failure_title(failure),
      "rank 3 failed first, 41 s into the run; of the other 7, 4 were "
      "stopped, 2 failed after it, 1 had ended");
}

TEST(FailureReport, ShowsControlCharactersInsteadOfObeyingThem) {
  Failure failure = example();
  failure.last_lines = {"\x1b[2Jgone"};

  EXPECT_NE(failure_body(failure).find("\\x1b[2Jgone"), std::string::npos);
}

TEST(ErrorFile, IsReadAsTorchrunWritesIt) {
  const std::string path = testing::TempDir() + "error.json";
  std::ofstream(path) << R"({"message": {"message": "ValueError: bad",
      "extraInfo": {"py_callstack": "…", "timestamp": "1731628800"}}})";

  EXPECT_EQ(read_error_file(path).text, "ValueError: bad");
  EXPECT_EQ(read_error_file(path).timestamp, 1731628800.0);
  EXPECT_EQ(read_error_file("/nowhere").text, "");
}

class FakeSystem : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string root() const {
    return testing::TempDir() + "memory_kill/" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }
};

TEST_F(FakeSystem, MemoryKillsOfTheGroupAreCounted) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 1\n");
  const MemoryKillWatch watch(root());
  EXPECT_EQ(watch.happened(), false);

  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 2\noom_kill 2\n");

  EXPECT_EQ(watch.happened(), true);
}

TEST_F(FakeSystem, MemoryKillsOfAnOldGroupAreCounted) {
  write("/proc/self/cgroup", "9:memory:/job\n8:cpu:/x\n");
  write(
      "/sys/fs/cgroup/memory/job/memory.oom_control",
      "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  const MemoryKillWatch watch(root());

  write(
      "/sys/fs/cgroup/memory/job/memory.oom_control",
      "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");

  EXPECT_EQ(watch.happened(), true);
}

TEST_F(FakeSystem, WithoutCountersNothingIsClaimed) {
  EXPECT_EQ(MemoryKillWatch(root()).happened(), std::nullopt);
}

TEST(Signals, HaveNames) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(64), "signal 64");
  EXPECT_EQ(describe_exit(3, 0), "exited with code 3");
  EXPECT_EQ(describe_exit(0, SIGSEGV), "killed by SIGSEGV");
}

}  // namespace
}  // namespace accelerate
