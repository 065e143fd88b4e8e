// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/progress_file.h"
#include "launch/failure.h"
#include "launch/oom_kill.h"
#include "launch/signals.h"
#include "launch/status_text.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

Failure example() {
  Failure failure;
  failure.rank = 3;
  failure.hostname = "node-b";
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

TEST(FailureReport, ShowsTheFirstFailingRankAndHints) {
  const Failure failure = example();

  EXPECT_EQ(
      failure_title(failure),
      "rank 3 failed first, 41 s into the run; the other 7 ranks were "
      "stopped");
  EXPECT_EQ(
      failure_body(failure),
      "  rank 3 on node-b, pid 88214: killed by SIGKILL; last status: step "
      "120\n  its last line:\n    step 120  loss 2.3107\n");
  EXPECT_EQ(
      failure_hints(failure),
      (std::vector<std::string>{
          "check whether the kernel's OOM killer sent SIGKILL: run `dmesg -T | "
          "tail` on node-b",
          "see the full output of rank 3 in runs/x/rank_3.*.log"}));
}

// The C++ runtime has also printed the exception.
TEST(FailureReport, ShowsAnUncaughtExceptionOnce) {
  Failure failure = example();
  failure.exception = "accelerate::IoError: the disk is full";
  failure.last_lines = {
      "step 120",
      "terminate called after throwing an instance of 'accelerate::IoError'",
      "  what():  the disk is full"};

  const std::string body = failure_body(failure);

  EXPECT_EQ(body.find("terminate called"), body.npos) << body;
  EXPECT_EQ(body.find("the disk is full"), body.rfind("the disk is full"))
      << body;
  EXPECT_NE(body.find("  its last line:\n    step 120\n"), body.npos) << body;
}

TEST(FailureReport, ReportsTheOomKiller) {
  Failure failure = example();
  failure.oom_kill = true;

  EXPECT_NE(
      failure_body(failure).find(
          "killed by SIGKILL from the kernel's OOM killer"),
      std::string::npos);
}

TEST(FailureReport, ShowsTheStep) {
  Failure failure = example();
  failure.status = "";
  failure.step = 120;

  EXPECT_TRUE(failure_body(failure).starts_with(
      "  rank 3 on node-b, pid 88214: killed by SIGKILL, at step 120\n"));
}

TEST(FailureReport, DoesNotBlameARankForAnInterrupt) {
  Failure failure = example();
  failure.step = 120;
  failure.interrupt = SIGINT;
  failure.signal = SIGINT;

  EXPECT_EQ(
      failure_title(failure),
      "interrupted by SIGINT on node-b, 41 s into the run");
  EXPECT_EQ(failure_body(failure), "  rank 3 was at step 120\n");
  EXPECT_TRUE(failure_hints(failure).empty());

  failure.signal = 0;
  failure.exit_code = 3;
  EXPECT_EQ(
      failure_title(failure),
      "interrupted by SIGINT on node-b, 41 s into the run; rank 3 then failed");
  EXPECT_NE(
      failure_body(failure).find("exited with code 3"), std::string::npos);
}

TEST(StatusText, ShowsTheStepAndTheWaitOfEachRank) {
  RankStatus waiting;
  waiting.rank = 0;
  waiting.is_connected = true;
  waiting.status = "gather #4, waiting for rank 1";
  RankStatus remote;
  remote.rank = 2;
  remote.is_connected = true;
  remote.step = 7;
  RankStatus disconnected;
  disconnected.rank = 3;

  const std::vector<RankStatus> ranks =
      status_from_json(status_to_json({waiting, remote, disconnected}));

  EXPECT_EQ(
      status_text(
          12,
          5,
          {{0, 100, "", false, 8}, {1, 101, "killed by SIGSEGV", false, 7}},
          ranks),
      "status after 12 s: 1 of 2 workers running on this machine\n"
      "  rank 0, pid 100: running, at step 8, gather #4, waiting for rank 1\n"
      "  rank 1, pid 101: killed by SIGSEGV, at step 7\n"
      "  rank 2 on another machine: running, at step 7\n"
      "  rank 3 on another machine: disconnected\n"
      "  rank 4 on another machine: has not connected to the store");
}

TEST(ProgressFile, CanBeReadDuringAndAfterWriting) {
  const std::string path = fresh_folder() / "step";
  EXPECT_EQ(read_progress(path), std::nullopt);
  create_progress_file(path);
  EXPECT_EQ(read_progress(path), std::nullopt);
  {
    ProgressWriter writer(path);
    writer.write(41);
    EXPECT_EQ(read_progress(path), 41);
    writer.write(42);
  }
  EXPECT_EQ(read_progress(path), 42);

  create_progress_file(path);
  EXPECT_EQ(read_progress(path), std::nullopt) << "after a restart";
  std::filesystem::resize_file(path, 3);
  ProgressWriter(path).write(1);
  ProgressWriter(path + ".missing").write(1);
}

TEST(FailureReport, CountsTheOtherRanks) {
  Failure failure = example();
  failure.others_stopped = 4;
  failure.others_failed = 2;

  EXPECT_EQ(
      failure_title(failure),
      "rank 3 failed first, 41 s into the run; of the other 7 ranks, 4 were "
      "stopped, 2 failed later and 1 had already exited");
}

// Text from a rank or a machine must not begin a line of its own either.
TEST(FailureReport, EscapesControlCharacters) {
  Failure failure = example();
  failure.status = "a\nerror: b";
  failure.exception = "\x1b[2Jthrown";
  failure.last_lines = {"\x1b[2Jcleared"};
  Failure lost = example();
  lost.disconnected_machine = "n2\nerror: b";

  EXPECT_EQ(
      failure_body(failure),
      "  rank 3 on node-b, pid 88214: killed by SIGKILL; last status: "
      "a\\x0aerror: b\n  it reported:\n    \\x1b[2Jthrown\n  its last line:\n"
      "    \\x1b[2Jcleared\n");
  EXPECT_TRUE(
      failure_title(lost).starts_with("machine n2\\x0aerror: b disconnected"));
}

TEST(ErrorFile, HasTheFormatOfTorchrun) {
  const std::string path = fresh_folder() / "error.json";
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
  const std::string& root() const { return root_; }

 private:
  const std::string root_ = fresh_folder();
};

TEST_F(FakeSystem, CountsOomKillsOfTheCgroup) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 1\noom_kill 1\n");
  const OomKillMonitor monitor(root());
  EXPECT_EQ(monitor.happened(), false);

  write("/sys/fs/cgroup/job/memory.events", "low 0\noom 2\noom_kill 2\n");

  EXPECT_EQ(monitor.happened(), true);
}

TEST_F(FakeSystem, CountsOomKillsOfACgroupOfVersion1) {
  write("/proc/self/cgroup", "9:memory:/job\n8:cpu:/x\n");
  write(
      "/sys/fs/cgroup/memory/job/memory.oom_control",
      "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  const OomKillMonitor monitor(root());

  write(
      "/sys/fs/cgroup/memory/job/memory.oom_control",
      "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");

  EXPECT_EQ(monitor.happened(), true);
}

TEST_F(FakeSystem, ReportsNothingWithoutOomCounters) {
  EXPECT_EQ(OomKillMonitor(root()).happened(), std::nullopt);
}

TEST(Signals, HaveNames) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(64), "signal 64");
  EXPECT_EQ(describe_exit(3, 0), "exited with code 3");
  EXPECT_EQ(describe_exit(0, SIGSEGV), "killed by SIGSEGV");
}

}  // namespace
}  // namespace accelerate
