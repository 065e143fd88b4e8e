// SPDX-License-Identifier: Apache-2.0
// Checkpoints of programs under our launcher: machines that are taken away,
// and machines without a common disk.
#include <csignal>
#include <filesystem>
#include <future>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folders/checkpoints.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

CommandOptions launch_command(const std::string& options) {
  CommandOptions command;
  command.words = {
      "/bin/sh",
      "-c",
      std::string("exec ") + ACCELERATE_CLI + " launch --cpu " + options};
  command.environment = {
      {"HOME", testing::TempDir()},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"PROGRAM", ACCELERATE_PROGRAM}};
  command.timeout = std::chrono::seconds(60);
  return command;
}

/// Sends a signal to the launcher once the program trains.
CommandResult preempt(const std::string& options, int signal) {
  auto command = launch_command(options);
  command.watch = [signal](pid_t pid, const std::string& err) {
    if (err.find("trains") == std::string::npos) {
      return false;
    }
    ::kill(pid, signal);
    return true;
  };
  return run_command(command);
}

class Preemption : public testing::Test {
 protected:
  std::string program(const std::string& words) const {
    return " $PROGRAM folder=" + folder_.path().string() + " " + words;
  }
  std::vector<CheckpointEntry> checkpoints() const {
    const fs::path folder = folder_.path() / "checkpoints";
    return fs::exists(folder) ? list_checkpoints(folder)
                              : std::vector<CheckpointEntry>();
  }

  const TemporaryFolder folder_;
};

TEST_F(Preemption, LeavesTimeToSaveOnEveryProcess) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const auto before = checkpoints().size();

    const auto result = preempt(
        "--num_processes 2 --grace_period 40" +
            program("steps=1000000 request=leave"),
        signal);

    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("left at step ")) << result.err;
    ASSERT_EQ(checkpoints().size(), before + 1);
    const auto newest = checkpoints().back();
    ASSERT_TRUE(newest.manifest) << newest.problem;
    EXPECT_TRUE(verify_checkpoint(newest.path, *newest.manifest).empty());

    const auto next = launch_command(
        "--num_processes 3" +
        program("steps=" + std::to_string(newest.manifest->step + 1)));
    EXPECT_THAT(
        run_command(next).out,
        HasSubstr(
            "loaded step " + std::to_string(newest.manifest->step) + "\n"));
  }
}

TEST_F(Preemption, EndsWhoDoesNotCareWhenTheTimeIsOver) {
  const auto result = preempt(
      "--num_processes 2 --grace_period 1.5" +
          program("steps=100000000 request=stay"),
      SIGTERM);

  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 137) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "warning: 2 of 2 workers did not end within the grace period of "
          "1.5 s and were killed"));
  EXPECT_THAT(result.err, HasSubstr("interrupted by SIGTERM"));
}

// Both on this host, but each node's processes write to a folder of its own.
TEST(SaveOnEachNode, GivesEveryNodeACheckpointThatLoads) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& words) {
    const std::string port = std::to_string(20000 + ::getpid() % 10000);
    const auto machine = [&](const std::string& rank) {
      return run_command(launch_command(
          "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
          "--main_process_port " +
          port + " --machine_rank " + rank +
          " sh -c 'exec $PROGRAM folder=" + folder.path().string() +
          "/node_$GROUP_RANK each_node " + words + "'"));
    };
    auto other = std::async(std::launch::async, machine, "1");
    const auto main = machine("0");
    const auto second = other.get();
    EXPECT_EQ(main.exit_code, 0) << main.err;
    EXPECT_EQ(second.exit_code, 0) << second.err;
    return main;
  };

  run("steps=2 every=2");
  for (const char* node : {"node_0", "node_1"}) {
    const auto list = list_checkpoints(folder.path() / node / "checkpoints");
    ASSERT_EQ(list.size(), 1U) << node;
    ASSERT_TRUE(list[0].manifest) << list[0].problem;
    EXPECT_TRUE(verify_checkpoint(list[0].path, *list[0].manifest).empty());
    EXPECT_TRUE(fs::exists(list[0].path / "model.safetensors")) << node;
  }

  EXPECT_THAT(run("steps=3").out, HasSubstr("loaded step 2\n"));
}

}  // namespace
}  // namespace accelerate::test
