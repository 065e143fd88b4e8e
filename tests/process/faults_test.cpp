// SPDX-License-Identifier: Apache-2.0
// Processes that are killed, stopped or exit: the other ranks report it in
// time, and nothing is left behind.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::HasSubstr;

// The limit in seconds for detecting a fault on a busy machine.
// `DeathIsDetectedWithinASecond` checks the real limit of 1 s.
constexpr double kTestLimit = 5;

std::string scenario_worker() {
  return test_program_path("process_worker");
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// Prints the time, so that the log shows how far below the limit it is.
void expect_within_limit(const std::string& event, double seconds) {
  std::cout << "    " << event << ": " << seconds << " s\n";
  testing::Test::RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, kTestLimit);
}

// Ignores the entries of other programs on this machine.
bool may_be_ours(const std::string& name) {
  return name.find("accelerate") != std::string::npos ||
         name.find("torch") != std::string::npos ||
         name.find("gloo") != std::string::npos;
}

std::set<std::string> entries_of_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (may_be_ours(entry.path().filename().string())) {
      names.insert(entry.path().filename().string());
    }
  }
  return names;
}

// The inodes in the lines `segment <inode>` of a rank's output.
std::set<std::string> segments_in(const std::string& output) {
  std::set<std::string> inodes;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("segment ")) {
      inodes.insert(line.substr(8));
    }
  }
  return inodes;
}

bool any_process_maps(const std::set<std::string>& inodes) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream maps(entry.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memfd:accelerate") == std::string::npos) {
        continue;
      }
      for (const std::string& inode : inodes) {
        if (line.find(" " + inode + " ") != std::string::npos) {
          return true;
        }
      }
    }
  }
  return false;
}

class Faults : public testing::TestWithParam<std::string> {
 protected:
  bool has_segment() const { return GetParam() != "network"; }

  // Returns a pattern for the error of a surviving rank after rank 1 died.
  // `call` is a pattern, too. The error may also be about another surviving
  // rank that has already exited.
  std::string lost_error(int rank, const std::string& call) const {
    const std::string exited = "(rank 1|ranks 0, 1|ranks 1, 2)";
    const std::string survivor = ": rank " + std::to_string(rank);
    const std::string hint =
        "hint: the root cause is in the logs? of " + exited + "\n";
    return has_segment() ? "DistributedError: " + call + survivor +
                               " lost the connection to " + exited +
                               ": the process(es)? exited or destroyed "
                               "(its process group|their process groups)\n" +
                               hint
                         : "DistributedError: " + call + survivor +
                               " lost the connection to another rank, and " +
                               exited + " did not respond: .*\n" + hint;
  }

  // The group rejects all later calls.
  static std::string rejected(int size) {
    return "second: DistributedError: this group of " + std::to_string(size) +
           " ranks is unusable after an error: ";
  }

  void expect_nothing_left(const std::vector<ProcessResult>& results) {
    std::set<std::string> inodes;
    for (const ProcessResult& result : results) {
      inodes.merge(segments_in(result.output));
    }
    EXPECT_EQ(inodes.empty(), !has_segment()) << "no segment was checked";
    EXPECT_FALSE(any_process_maps(inodes));
    EXPECT_EQ(entries_of_dev_shm(), dev_shm_);
  }

 private:
  std::set<std::string> dev_shm_ = entries_of_dev_shm();
};

TEST_P(Faults, KilledBeforeACollective) {
  Processes processes(3, scenario_worker(), {"absent", GetParam()});
  processes.wait_for(1, "joined");

  processes.send_signal(1, SIGKILL);
  const auto killed = steady_clock::now();
  processes.wait_for(0, "first: ");
  processes.wait_for(2, "first: ");
  expect_within_limit("killed before a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("first: " + lost_error(rank, "reduce #1")));
    EXPECT_THAT(results[rank].output, HasSubstr(rejected(3)));
  }
  expect_nothing_left(results);
}

// Seconds from the death of rank 1 until both waiting ranks have their error,
// measured by these ranks.
double seconds_to_detect(const std::string& backend) {
  Processes processes(3, scenario_worker(), {"absent", backend});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "joined");
  }
  processes.send_signal(1, SIGKILL);
  const auto killed = steady_clock::now();
  double longest = 0;
  for (const ProcessResult& result : processes.wait()) {
    const std::string mark = "ended at ";
    const auto at = result.output.find(mark);
    if (at != std::string::npos) {
      const steady_clock::duration ended(
          std::stoll(result.output.substr(at + mark.size())));
      longest = std::max(
          longest,
          std::chrono::duration<double>(ended - killed.time_since_epoch())
              .count());
    } else if (result.rank != 1) {
      throw std::runtime_error(describe(result) + "\n" + result.output);
    }
  }
  return longest;
}

TEST_P(Faults, DeathIsDetectedWithinASecond) {
  double seconds = seconds_to_detect(GetParam());
  if (seconds > 1) {
    // Measures again, because a busy machine may stall once.
    seconds = seconds_to_detect(GetParam());
  }

  std::cout << "    detected after " << seconds << " s\n";
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LE(seconds, 1);
}

TEST_P(Faults, KilledInACollective) {
  Processes processes(3, scenario_worker(), {"busy", GetParam()});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "looping");
  }

  processes.send_signal(1, SIGKILL);
  const auto killed = steady_clock::now();
  processes.wait_for(0, "loop: ");
  processes.wait_for(2, "loop: ");
  expect_within_limit("killed in a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    // The fault is detected before or during the data transfer.
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("loop: " + lost_error(rank, "reduce #[0-9]+")));
    EXPECT_THAT(results[rank].output, HasSubstr(rejected(3)));
  }
  expect_nothing_left(results);
}

TEST_P(Faults, KilledAfterACollective) {
  Processes processes(3, scenario_worker(), {"between", GetParam()});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "done");
  }

  processes.send_signal(1, SIGKILL);
  const auto killed = steady_clock::now();
  processes.send_line(0, "go");
  processes.send_line(2, "go");
  processes.wait_for(0, "second: ");
  processes.wait_for(2, "second: ");
  expect_within_limit("killed after a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_THAT(results[rank].output, HasSubstr("first: ok\ndone\n"));
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("second: " + lost_error(rank, "reduce #2")));
    EXPECT_THAT(
        results[rank].output,
        HasSubstr("third: DistributedError: this group of 3 ranks is "
                  "unusable after an error: reduce #2: "));
  }
  expect_nothing_left(results);
}

TEST_P(Faults, ExitsEarlyWithExitCodeZero) {
  const auto results =
      run_processes(3, scenario_worker(), {"exits_early", GetParam()});

  EXPECT_EQ(results[1].exit_code, 0);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("first: " + lost_error(rank, "reduce #1")));
    EXPECT_THAT(results[rank].output, HasSubstr(rejected(3)));
    EXPECT_LT(results[rank].seconds - results[1].seconds, kTestLimit);
  }
  expect_nothing_left(results);
}

TEST_P(Faults, AllRanksAreKilledAtOnce) {
  Processes processes(3, scenario_worker(), {"busy", GetParam()});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "looping");
  }

  for (const int rank : {0, 1, 2}) {
    processes.send_signal(rank, SIGKILL);
  }

  expect_nothing_left(processes.wait());
}

// The stopped rank is alive, so only the timeout detects it: a warning, then
// the error.
TEST_P(Faults, StoppedBeforeACollective) {
  Processes processes(
      3, scenario_worker(), {"absent", GetParam(), "1000", "300"});
  processes.wait_for(1, "joined");

  processes.send_signal(1, SIGSTOP);
  const auto stopped = steady_clock::now();
  processes.wait_for(0, "first: ");
  processes.wait_for(2, "first: ");
  expect_within_limit("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.send_signal(1, SIGKILL);
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    const std::string name = "rank " + std::to_string(rank);
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        HasSubstr(
            "warning: reduce #1: " + name +
            " has waited 300 ms for rank 1; the timeout is 1 s\n"
            "first: DistributedError: reduce #1: rank 1 did not reach this "
            "call within 1 s; " +
            name +
            " stopped waiting\n"
            "hint: check what rank 1 did instead: every rank must make the "
            "same collective calls, so do not call a collective inside `if "
            "(is_main_process())`\n"));
    EXPECT_THAT(results[rank].output, HasSubstr(rejected(3)));
  }
  expect_nothing_left(results);
}

TEST_P(Faults, StoppedInACollective) {
  Processes processes(
      3, scenario_worker(), {"busy", GetParam(), "1000", "300"});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "looping");
  }

  processes.send_signal(1, SIGSTOP);
  const auto stopped = steady_clock::now();
  processes.wait_for(0, "loop: ");
  processes.wait_for(2, "loop: ");
  expect_within_limit("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.send_signal(1, SIGKILL);
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex(
            "loop: DistributedError: reduce #[0-9]+: rank 1 did not reach this "
            "call within 1 s; rank " +
            std::to_string(rank) + " stopped waiting\n"));
  }
  expect_nothing_left(results);
}

// Rank 0 runs the store, so rank 1 cannot ask it which ranks are missing.
TEST_P(Faults, StoppedTogetherWithTheStore) {
  Processes processes(
      2,
      scenario_worker(),
      {"busy", GetParam(), "1000", "300"},
      {.timeout = std::chrono::seconds(30), .store_in_test = false});
  for (const int rank : {0, 1}) {
    processes.wait_for(rank, "looping");
  }

  processes.send_signal(0, SIGSTOP);
  const auto stopped = steady_clock::now();
  processes.wait_for(1, "loop: ");
  expect_within_limit("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.wait_for(1, "second: ");
  processes.send_signal(0, SIGKILL);
  const auto results = processes.wait();

  EXPECT_EQ(results[1].exit_code, 0) << describe(results[1]);
  EXPECT_THAT(
      results[1].output,
      ContainsRegex("warning: reduce #[0-9]+: rank 1 has waited 300 ms for "
                    "rank 0(, and the store is not responding)?; the timeout "
                    "is 1 s\n"));
  EXPECT_THAT(
      results[1].output,
      ContainsRegex(
          "loop: DistributedError: reduce #[0-9]+: rank 0 (did not reach this "
          "call within 1 s|did not respond within 1 s, and the store is not "
          "responding); rank 1 stopped waiting\n"));
  EXPECT_THAT(results[1].output, HasSubstr(rejected(2)));
  expect_nothing_left(results);
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    Faults,
    testing::Values("shm", "gloo", "network"),
    [](const auto& test) { return test.param; });

TEST(StoreFaults, StoppedBeforeTheOtherRanksJoin) {
  Processes processes(
      2,
      scenario_worker(),
      {"late_others", "auto", "3000", "300"},
      {.timeout = std::chrono::seconds(30), .store_in_test = false});
  processes.wait_for(0, "looking");
  processes.wait_for(0, "has waited");  // The store on rank 0 is running now.

  processes.send_signal(0, SIGSTOP);
  processes.send_line(1, "go");
  const auto stopped = steady_clock::now();
  processes.wait_for(1, "join: ");
  EXPECT_LT(seconds_since(stopped), 15);
  processes.send_signal(0, SIGKILL);
  const auto results = processes.wait();

  EXPECT_THAT(
      results[1].output,
      ContainsRegex(
          "join: DistributedError: (rank 1 cannot reach the store at "
          "127.0.0.1:[0-9]+: no answer within 3000 ms|joining the "
          "group \\([a-z0-9 ]+\\) #0: rank 0 did not respond within 3 "
          "s, and the store is not responding; rank 1 stopped "
          "waiting)"));
}

class CalledOnlyOnTheMainProcess : public testing::TestWithParam<std::string> {
};

TEST_P(CalledOnlyOnTheMainProcess, NamesTheMissingRanks) {
  Processes processes(
      3, scenario_worker(), {"main_only", GetParam(), "1000", "300"});

  processes.wait_for(0, "gather: ");
  processes.send_line(1, "go");
  processes.send_line(2, "go");
  const auto results = processes.wait();

  EXPECT_THAT(
      results[0].output,
      HasSubstr(
          "warning: gather #1: rank 0 has waited 300 ms for ranks 1, 2; the "
          "timeout is 1 s\n"
          "gather: DistributedError: gather #1: ranks 1, 2 did not reach this "
          "call within 1 s; rank 0 stopped waiting\n"));
  // The errors of the late ranks contain the call in which rank 0 was waiting.
  for (const int rank : {1, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        HasSubstr("barrier: MismatchError: the ranks are in different "
                  "collective calls\n"
                  "  rank 0: gather #1 of Float[1]\n"
                  "  ranks 1, 2: wait_for_everyone #1\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    CalledOnlyOnTheMainProcess,
    testing::Values("shm", "gloo", "network"),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accelerate
