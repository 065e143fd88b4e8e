// SPDX-License-Identifier: Apache-2.0
// A C++ program that trains on several machines with their own addresses.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/network_machines.h"
#include "support/temporary_directory.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;
using Results = std::vector<CommandResult>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class MultiMachineTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!machines_.problem().empty()) {
      GTEST_SKIP() << machines_.problem();
    }
  }

  CommandOptions shell(const std::string& line) const {
    CommandOptions command;
    command.argv = {"/bin/sh", "-c", line};
    command.environment = {
        {"HOME", home_},
        {"TMPDIR", home_},
        {"PATH", "/usr/bin:/bin"},
        {"CUDA_VISIBLE_DEVICES", ""},
        {"OMP_NUM_THREADS", "1"},
        {"ACCELERATE_JOB_SECRET", "0123456789abcdef0123456789abcdef"},
        {"PROGRAM", ACCELERATE_PROGRAM}};
    command.timeout = std::chrono::seconds(100);
    return command;
  }

  static std::string launch(const std::string& arguments) {
    return ACCELERATE_CLI " launch --cpu " + arguments;
  }

  // Returns the command for a machine; only the machine rank differs between
  // machines.
  std::string on_machine(
      int machine,
      int machines,
      int processes,
      const std::string& arguments) const {
    return machines_.on(machine) +
           launch(
               "--num_machines " + std::to_string(machines) +
               " --num_processes " + std::to_string(processes) +
               " --machine_rank " + std::to_string(machine) +
               " --main_process_ip " + NetworkMachines::address(0) + " " +
               arguments);
  }

  std::future<CommandResult> start(const std::string& line) const {
    return std::async(std::launch::async, [options = shell(line)] {
      return run_command(options);
    });
  }

  Results run_on(
      int machines, int processes, const std::string& arguments) const {
    std::vector<std::future<CommandResult>> started;
    for (int machine = 0; machine < machines; ++machine) {
      started.push_back(
          start(on_machine(machine, machines, processes, arguments)));
    }
    Results results;
    for (auto& future : started) {
      results.push_back(future.get());
    }
    return results;
  }

  std::string result_of_one_process() const {
    return run_command(shell(launch("$PROGRAM"))).out;
  }

  std::string marks() const { return home_ + "/mark"; }

  testing::AssertionResult all_marked(int count) const {
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int rank = 0; rank < count;) {
      if (fs::exists(marks() + std::to_string(rank))) {
        ++rank;
      } else if (std::chrono::steady_clock::now() > deadline) {
        return testing::AssertionFailure()
               << "rank " << rank << " has not started";
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return testing::AssertionSuccess();
  }

  NetworkMachines machines_{3};
  const TemporaryDirectory folder_;
  const std::string home_ = folder_.path();
};

TEST_F(MultiMachineTraining, OnTwoMachinesMatchesOneProcess) {
  const std::string alone = result_of_one_process();
  ASSERT_TRUE(contains(alone, "80 steps: ")) << alone;

  const Results results = run_on(2, 4, "$PROGRAM");

  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].err;
  EXPECT_EQ(results[0].out, alone) << results[0].err;
  // `print` prints once on each machine.
  EXPECT_EQ(results[1].out, alone) << results[1].err;
  EXPECT_TRUE(contains(results[0].err, "4 processes over gloo"))
      << results[0].err;
}

TEST_F(MultiMachineTraining, OnThreeMachinesMatchesOneProcess) {
  const Results results = run_on(3, 3, "$PROGRAM");

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(results[0].out, result_of_one_process());
}

// As on many systems, the hostname of each machine resolves to a loopback
// address.
TEST_F(MultiMachineTraining, AllowsAHostnameThatResolvesToTheLoopback) {
  std::ofstream(home_ + "/names-0")
      << "127.0.0.1 localhost\n127.0.1.1 node-0\n"
      << NetworkMachines::address(1) << " node-1\n";
  std::ofstream(home_ + "/names-1")
      << "127.0.0.1 localhost\n127.0.1.1 node-1\n"
      << NetworkMachines::address(0) << " node-0\n";
  const auto line = [&](int machine) {
    const std::string number = std::to_string(machine);
    return machines_.on(machine, home_ + "/names-" + number) +
           launch(
               "--num_machines 2 --num_processes 2 --machine_rank " + number +
               " --main_process_ip node-0 $PROGRAM");
  };
  auto first = start(line(0));
  const auto second = run_command(shell(line(1)));
  const auto result = first.get();

  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, result_of_one_process()) << result.err;
}

TEST_F(MultiMachineTraining, WaitsForALateMachine) {
  auto first = start(on_machine(0, 2, 2, "$PROGRAM"));
  // Machine 1 starts only after this training has finished.
  const std::string alone = result_of_one_process();
  const auto second = run_command(shell(on_machine(1, 2, 2, "$PROGRAM")));
  const auto result = first.get();

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(result.out, alone);
}

TEST_F(MultiMachineTraining, ReportsAMissingMachine) {
  const auto result =
      run_command(shell(on_machine(0, 2, 2, "--rdzv_timeout 2 $PROGRAM")));

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "") << "no worker must start";
  EXPECT_TRUE(contains(
      result.err,
      "error: 1 of 2 machines did not join at 10.77.0.1:29500 within 2.0 s"))
      << result.err;
  EXPECT_TRUE(
      contains(result.err, "0        node-0    10.77.0.1:29500  joined"))
      << result.err;
  EXPECT_TRUE(
      contains(result.err, "1        -         -                missing"))
      << result.err;
}

// A machine with a wrong secret is refused. A machine with the correct secret
// can still join, and the result is unaffected.
TEST_F(MultiMachineTraining, RefusesAMachineWithAWrongSecret) {
  auto first = start(on_machine(0, 2, 2, "$PROGRAM"));
  const auto wrong = run_command(shell(
      "ACCELERATE_JOB_SECRET=ffffffffffffffffffffffffffffffff " +
      on_machine(1, 2, 2, "$PROGRAM")));
  const auto second = run_command(shell(on_machine(1, 2, 2, "$PROGRAM")));
  const auto result = first.get();

  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(contains(wrong.err, "rejected this process's secret"))
      << wrong.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(
      contains(result.err, "warning: refused a connection from 10.77.0.2:"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "wrong secret")) << result.err;
  EXPECT_EQ(result.out, result_of_one_process());
}

TEST_F(MultiMachineTraining, NoticesALostConnection) {
  const std::string program = "$PROGRAM pause=1000 mark=" + marks();
  auto first = start(on_machine(0, 2, 4, program));
  auto second = start(on_machine(1, 2, 4, program));
  ASSERT_TRUE(all_marked(4));

  machines_.set_link(1, false);
  const auto result = first.get();
  const auto cut = second.get();

  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(contains(result.err, "error: machine 1 (node-1, 10.77.0.2:"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "disconnected")) << result.err;
  EXPECT_EQ(cut.exit_code, 1) << cut.err;
  EXPECT_TRUE(
      contains(cut.err, "error: machine 0 (10.77.0.1:29500) disconnected"))
      << cut.err;
}

TEST_F(MultiMachineTraining, ReportsAnExceptionOnEveryMachine) {
  const Results results = run_on(2, 4, "$PROGRAM throw=3@7");

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 134) << result.err;
    EXPECT_TRUE(contains(result.err, "error: rank 3 failed first"))
        << result.err;
    EXPECT_TRUE(contains(result.err, "rank 3 on node-1, pid ")) << result.err;
    EXPECT_TRUE(contains(result.err, "at step 6")) << result.err;
    EXPECT_TRUE(
        contains(result.err, "std::runtime_error: the loss is not a number"))
        << result.err;
    EXPECT_LT(result.seconds, 20);
  }
}

}  // namespace
}  // namespace accelerate::test
