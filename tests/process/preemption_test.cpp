// SPDX-License-Identifier: Apache-2.0
// Checkpoints of programs under `accelerate launch`: preempted machines, and
// machines without a shared disk.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/checkpoint.h"
#include "checkpoint_directory/checkpoints.h"
#include "support/command.h"
#include "support/temporary_directory.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

CommandOptions launch_command(const std::string& options) {
  // The machines of a job share the home folder and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.argv = {
      "/bin/sh",
      "-c",
      std::string("exec ") + ACCELERATE_CLI + " launch --cpu " + options};
  command.environment = {
      {"HOME", home},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"PROGRAM", ACCELERATE_PROGRAM}};
  command.timeout = std::chrono::seconds(60);
  return command;
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string name = std::to_string(pid);
  std::ifstream file("/proc/" + name + "/task/" + name + "/children");
  return {std::istream_iterator<pid_t>(file), {}};
}

/// Sends a signal to the launcher once the program is training.
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

/// Lines such as "rank 1 step 4 loss 0x1.8p+1" of steps after `step`.
std::set<std::string> losses_after(int step, const std::string& out) {
  std::set<std::string> losses;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("rank ");
    int rank = 0;
    int found = 0;
    if (at != line.npos &&
        std::sscanf(line.c_str() + at, "rank %d step %d loss", &rank, &found) ==
            2 &&
        found > step) {
      losses.insert(line.substr(at));
    }
  }
  return losses;
}

class Preemption : public testing::Test {
 protected:
  std::string program(const std::string& arguments) const {
    return " $PROGRAM folder=" + folder_.path().string() + " " + arguments;
  }
  std::vector<CheckpointEntry> checkpoints() const {
    const fs::path folder = folder_.path() / "checkpoints";
    return fs::exists(folder) ? list_checkpoints(folder)
                              : std::vector<CheckpointEntry>();
  }

  const TemporaryDirectory folder_;
};

TEST_F(Preemption, SavesACheckpointOnEveryProcess) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const auto before = checkpoints().size();

    const auto result = preempt(
        "--num_processes 2 --grace_period 40" +
            program("steps=1000000 request=exit"),
        signal);

    EXPECT_EQ(result.exit_code, kPreemptedExitCode) << result.err;
    EXPECT_THAT(result.out, HasSubstr("exited at step ")) << result.err;
    EXPECT_THAT(
        result.err,
        HasSubstr("warning: the program was preempted and exited, "));
    EXPECT_THAT(
        result.err,
        HasSubstr(
            "hint: start the program again to resume from its checkpoint"));
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

// Slurm signals every process of a step.
TEST_F(Preemption, SavesWhenTheWorkersAndTheLauncherGetTheSameSignal) {
  auto command = launch_command(
      "--num_processes 2 --grace_period 40" +
      program("steps=1000000 request=exit"));
  command.watch = [](pid_t pid, const std::string& err) {
    if (err.find("trains") == std::string::npos) {
      return false;
    }
    for (const pid_t child : children_of(pid)) {
      ::kill(child, SIGTERM);
    }
    ::kill(pid, SIGTERM);
    return true;
  };

  const auto result = run_command(command);

  EXPECT_EQ(result.exit_code, kPreemptedExitCode) << result.err;
  ASSERT_EQ(checkpoints().size(), 1U);
  ASSERT_TRUE(checkpoints()[0].manifest) << checkpoints()[0].problem;
}

TEST_F(Preemption, KillsWorkersThatIgnoreItAfterTheGracePeriod) {
  const auto result = preempt(
      "--num_processes 2 --grace_period 1.5" +
          program("steps=100000000 request=continue"),
      SIGTERM);

  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 137) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "warning: 2 of 2 workers did not exit within the grace period of "
          "1.5 s and were killed"));
  EXPECT_THAT(result.err, HasSubstr("interrupted by SIGTERM"));
}

// When the first worker exits, the other workers are not stopped immediately,
// because they may still be saving.
TEST_F(Preemption, KillsAWorkerThatHangsAfterTheGracePeriod) {
  const auto result = run_command(launch_command(
      "--num_processes 2 --grace_period 1.5" +
      program("steps=50 request=exit_or_hang signal=1@7")));

  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 137) << result.err;
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "warning: 1 of 2 workers did not exit within the grace period of "
          "1.5 s and was killed"));
}

TEST_F(Preemption, DoesNotHideAFailure) {
  const auto result = run_command(launch_command(
      "--num_processes 3" +
      program("steps=50 request=exit_or_fail signal=1@7")));

  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: rank 1 failed first, "));
  EXPECT_THAT(result.err, HasSubstr("after the checkpoint"));
}

// Both nodes are on this computer, but each one writes to its own folder.
TEST(SaveOnEachNode, WritesACheckpointOnEveryNode) {
  const TemporaryDirectory folder;
  const auto run = [&](const std::string& base, const std::string& arguments) {
    const std::string port = std::to_string(20000 + ::getpid() % 10000);
    const auto machine = [&](const std::string& rank) {
      return run_command(launch_command(
          "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
          "--main_process_port " +
          port + " --machine_rank " + rank +
          " sh -c 'exec $PROGRAM folder=" + (folder.path() / base).string() +
          "/node_$GROUP_RANK each_node losses " + arguments + "'"));
    };
    auto other = std::async(std::launch::async, machine, "1");
    const auto main = machine("0");
    const auto second = other.get();
    EXPECT_EQ(main.exit_code, 0) << main.err;
    EXPECT_EQ(second.exit_code, 0) << second.err;
    return main.out + second.out;
  };

  run("stopped", "steps=2 every=2");
  for (const char* node : {"node_0", "node_1"}) {
    const auto list =
        list_checkpoints(folder.path() / "stopped" / node / "checkpoints");
    ASSERT_EQ(list.size(), 1U) << node;
    ASSERT_TRUE(list[0].manifest) << list[0].problem;
    EXPECT_TRUE(verify_checkpoint(list[0].path, *list[0].manifest).empty());
    EXPECT_TRUE(fs::exists(list[0].path / "model.safetensors")) << node;
  }

  // The checkpoint of each node contains the random states of its ranks, so
  // dropout continues as if there had been no interruption.
  const std::string resumed = run("stopped", "steps=6 seed=2");
  EXPECT_THAT(resumed, HasSubstr("loaded step 2\n"));
  EXPECT_EQ(losses_after(2, resumed), losses_after(2, run("whole", "steps=6")));
  EXPECT_EQ(losses_after(2, resumed).size(), 16U);
}

class Interrupted : public testing::TestWithParam<int> {};

// Dropout differs between ranks, so each rank must restore its own random
// state.
TEST_P(Interrupted, TrainingContinuesWithTheSameLosses) {
  const auto run = [](const fs::path& folder, const std::string& arguments) {
    const auto result = run_command(launch_command(
        "--num_processes " + std::to_string(GetParam()) +
        " $PROGRAM folder=" + folder.string() + " losses " + arguments));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const TemporaryDirectory folder;
  const auto uninterrupted = run(folder.path() / "whole", "steps=9");
  for (const int stop : {1, 4, 8}) {
    const fs::path path = folder.path() / std::to_string(stop);
    const std::string steps = std::to_string(stop);
    run(path,
        "steps=" + steps + " every=" + steps +
            (stop == 4 ? " background" : ""));
    EXPECT_EQ(
        losses_after(stop, run(path, "steps=9 seed=2")),
        losses_after(stop, uninterrupted))
        << "stopped at " << stop;
  }
  EXPECT_EQ(
      losses_after(0, uninterrupted).size(),
      static_cast<std::size_t>(9 * GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Interrupted, testing::Values(2, 3));

// One process gets the signal, and all processes stop at the same step.
TEST_F(Preemption, OfOneProcessStopsAllAtTheSameStep) {
  const auto result = run_command(launch_command(
      "--num_processes 3 --max_restarts 3" +
      program("steps=50 request=exit signal=1@7")));

  // Nothing failed, so the launcher restarts nothing.
  EXPECT_EQ(result.exit_code, kPreemptedExitCode) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("restart")));
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) {
    EXPECT_THAT(
        result.out, HasSubstr(std::string(rank) + " exited at step 7\n"));
  }
  ASSERT_EQ(checkpoints().size(), 1U);
  ASSERT_TRUE(checkpoints()[0].manifest);
  EXPECT_EQ(checkpoints()[0].manifest->step, 7);
}

}  // namespace
}  // namespace accelerate::test
