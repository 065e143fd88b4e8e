// SPDX-License-Identifier: Apache-2.0
// Processes that die, stop or leave: the others say so in time, and nothing
// is left behind.
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

// How long the test itself may take to see it, on a busy machine. The promise
// of 1 s is `DeathIsNoticedWithinASecond`.
constexpr double kSoon = 5;

std::string scenario_worker() {
  return beside_this_program("process_worker");
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// Prints the number, so that a reader of the log sees how far below the limit
// it is.
void expect_soon(const std::string& what, double seconds) {
  std::cout << "    " << what << ": " << seconds << " s\n";
  testing::Test::RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, kSoon);
}

// Other programs of this host come and go there; these are not ours.
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

bool somebody_maps(const std::set<std::string>& inodes) {
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

  // What a survivor says about rank 1, in the call that is given as a pattern.
  // Another survivor may have ended before this one looked.
  std::string lost(int rank, const std::string& call) const {
    const std::string who_ended = "(rank 1|ranks 0, 1|ranks 1, 2)";
    const std::string who = ": rank " + std::to_string(rank);
    return has_segment()
               ? "DistributedError: " + call + who + " lost " + who_ended +
                     ": the process ended or destroyed its group\n"
                     "hint: look for the own error of " +
                     who_ended + " first\n"
               : "DistributedError: " + call + who +
                     " lost the connection to a peer, no sign of life from " +
                     who_ended +
                     ": .*\n"
                     "hint: look for the own error of " +
                     who_ended + " first\n";
  }

  // The group refuses everything afterwards.
  static std::string refused(int size) {
    return "second: DistributedError: this group of " + std::to_string(size) +
           " ranks is unusable since ";
  }

  void expect_nothing_left(const std::vector<ProcessResult>& results) {
    std::set<std::string> inodes;
    for (const ProcessResult& result : results) {
      inodes.merge(segments_in(result.output));
    }
    EXPECT_EQ(inodes.empty(), !has_segment()) << "the test looked at nothing";
    EXPECT_FALSE(somebody_maps(inodes));
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
  expect_soon("killed before a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("first: " + lost(rank, "reduce #1")));
    EXPECT_THAT(results[rank].output, HasSubstr(refused(3)));
  }
  expect_nothing_left(results);
}

// Seconds from the death of rank 1 until both others, which wait for it, have
// their error: by their own clocks, not by what reaches the test.
double seconds_to_notice(const std::string& backend) {
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

TEST_P(Faults, DeathIsNoticedWithinASecond) {
  double seconds = seconds_to_notice(GetParam());
  if (seconds > 1) {
    seconds = seconds_to_notice(GetParam());  // A busy machine may stall once.
  }

  std::cout << "    noticed after " << seconds << " s\n";
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
  expect_soon("killed in a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    // Found missing before the data moves, or while it does.
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("loop: " + lost(rank, "reduce #[0-9]+")));
    EXPECT_THAT(results[rank].output, HasSubstr(refused(3)));
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
  processes.tell(0, "go");
  processes.tell(2, "go");
  processes.wait_for(0, "second: ");
  processes.wait_for(2, "second: ");
  expect_soon("killed after a collective", seconds_since(killed));
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_THAT(results[rank].output, HasSubstr("first: ok\ndone\n"));
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("second: " + lost(rank, "reduce #2")));
    EXPECT_THAT(
        results[rank].output,
        HasSubstr("third: DistributedError: this group of 3 ranks is "
                  "unusable since reduce #2: "));
  }
  expect_nothing_left(results);
}

TEST_P(Faults, LeavesEarlyWithExitCodeZero) {
  const auto results =
      run_processes(3, scenario_worker(), {"leaves_early", GetParam()});

  EXPECT_EQ(results[1].exit_code, 0);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex("first: " + lost(rank, "reduce #1")));
    EXPECT_THAT(results[rank].output, HasSubstr(refused(3)));
    EXPECT_LT(results[rank].seconds - results[1].seconds, kSoon);
  }
  expect_nothing_left(results);
}

TEST_P(Faults, EverybodyKilledAtOnce) {
  Processes processes(3, scenario_worker(), {"busy", GetParam()});
  for (const int rank : {0, 1, 2}) {
    processes.wait_for(rank, "looping");
  }

  for (const int rank : {0, 1, 2}) {
    processes.send_signal(rank, SIGKILL);
  }

  expect_nothing_left(processes.wait());
}

// The stopped rank is alive, so only time can tell: a warning, then the error.
TEST_P(Faults, Stopped) {
  Processes processes(
      3, scenario_worker(), {"absent", GetParam(), "1000", "300"});
  processes.wait_for(1, "joined");

  processes.send_signal(1, SIGSTOP);
  const auto stopped = steady_clock::now();
  processes.wait_for(0, "first: ");
  processes.wait_for(2, "first: ");
  expect_soon("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.send_signal(1, SIGKILL);
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    const std::string me = "rank " + std::to_string(rank);
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        HasSubstr(
            "warning: reduce #1: " + me +
            " has waited 300 ms for rank 1; it gives up after 1 s\n"
            "first: DistributedError: reduce #1: rank 1 did not come within "
            "1 s; " +
            me +
            " stopped waiting\n"
            "hint: see what rank 1 did instead: every rank must make the same "
            "collective calls, also inside `if (is_main_process())`\n"));
    EXPECT_THAT(results[rank].output, HasSubstr(refused(3)));
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
  expect_soon("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.send_signal(1, SIGKILL);
  const auto results = processes.wait();

  for (const int rank : {0, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        ContainsRegex(
            "loop: DistributedError: reduce #[0-9]+: rank 1 did not come "
            "within 1 s; rank " +
            std::to_string(rank) + " stopped waiting\n"));
  }
  expect_nothing_left(results);
}

// Rank 0 hosts the store: who is missing cannot be asked there any more.
TEST_P(Faults, StoppedTogetherWithTheStore) {
  Processes processes(
      2,
      scenario_worker(),
      {"busy", GetParam(), "1000", "300"},
      {.timeout = std::chrono::seconds(30), .host_store = false});
  for (const int rank : {0, 1}) {
    processes.wait_for(rank, "looping");
  }

  processes.send_signal(0, SIGSTOP);
  const auto stopped = steady_clock::now();
  processes.wait_for(1, "loop: ");
  expect_soon("stopped, with a timeout of 1 s", seconds_since(stopped));
  processes.wait_for(1, "second: ");
  processes.send_signal(0, SIGKILL);
  const auto results = processes.wait();

  EXPECT_EQ(results[1].exit_code, 0) << describe(results[1]);
  EXPECT_THAT(
      results[1].output,
      ContainsRegex("warning: reduce #[0-9]+: rank 1 has waited 300 ms for "
                    "rank 0(, and the store does not answer)?; it gives up "
                    "after 1 s\n"));
  EXPECT_THAT(
      results[1].output,
      ContainsRegex(
          "loop: DistributedError: reduce #[0-9]+: (rank 0 did not come within "
          "1 s|no word from rank 0 within 1 s, and the store does not answer);"
          " rank 1 stopped waiting\n"));
  EXPECT_THAT(results[1].output, HasSubstr(refused(2)));
  expect_nothing_left(results);
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    Faults,
    testing::Values("shm", "gloo", "network"),
    [](const auto& test) { return test.param; });

TEST(FaultsOfTheStore, StoppedBeforeTheOthersJoined) {
  Processes processes(
      2,
      scenario_worker(),
      {"late_others", "auto", "3000", "300"},
      {.timeout = std::chrono::seconds(30), .host_store = false});
  processes.wait_for(0, "looking");
  processes.wait_for(0, "has waited");  // So its store is there.

  processes.send_signal(0, SIGSTOP);
  processes.tell(1, "go");
  const auto stopped = steady_clock::now();
  processes.wait_for(1, "join: ");
  EXPECT_LT(seconds_since(stopped), 15);
  processes.send_signal(0, SIGKILL);
  const auto results = processes.wait();

  EXPECT_THAT(
      results[1].output,
      ContainsRegex("join: DistributedError: (rank 1 cannot reach the store at "
                    "127.0.0.1:[0-9]+: no answer within 3000 ms|joining the "
                    "group \\([a-z0-9]+\\) #0: no word from rank 0 within 3 s, "
                    "and the store does not answer; rank 1 stopped waiting)"));
}

class OnTheMainProcessOnly : public testing::TestWithParam<std::string> {};

TEST_P(OnTheMainProcessOnly, EndsWithTheNamesOfTheMissingRanks) {
  Processes processes(
      3, scenario_worker(), {"main_only", GetParam(), "1000", "300"});

  processes.wait_for(0, "gather: ");
  processes.tell(1, "go");
  processes.tell(2, "go");
  const auto results = processes.wait();

  EXPECT_THAT(
      results[0].output,
      HasSubstr(
          "warning: gather #1: rank 0 has waited 300 ms for ranks 1, 2; it "
          "gives up after 1 s\n"
          "gather: DistributedError: gather #1: ranks 1, 2 did not come within "
          "1 s; rank 0 stopped waiting\n"));
  // The late ones learn what rank 0 had been doing.
  for (const int rank : {1, 2}) {
    EXPECT_EQ(results[rank].exit_code, 0) << describe(results[rank]);
    EXPECT_THAT(
        results[rank].output,
        HasSubstr(
            "barrier: MismatchError: ranks are in different collective calls\n"
            "  rank 0: gather #1 of Float[1]\n"
            "  ranks 1, 2: wait_for_everyone #1\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    OnTheMainProcessOnly,
    testing::Values("shm", "gloo", "network"),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace accelerate
