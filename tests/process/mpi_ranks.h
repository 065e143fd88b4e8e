// SPDX-License-Identifier: Apache-2.0
// Runs programs under mpirun, for tests that read their output.
#pragma once

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>

#include <gtest/gtest.h>

struct Outcome {
  int status;
  double seconds;
  std::string output;
};

/// Runs a program under mpirun. A program that runs longer than `limit_s`
/// seconds is stopped, and the exit code is 124.
inline Outcome run_ranks(
    int ranks, const std::string& program, int limit_s = 60) {
  const std::string command =
      "OMP_NUM_THREADS=1 timeout --kill-after=5 " + std::to_string(limit_s) +
      " mpirun --allow-run-as-root --oversubscribe -n " +
      std::to_string(ranks) + " " + PROGRAM_FOLDER + "/" + program + " 2>&1";
  const auto start = std::chrono::steady_clock::now();
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, 0, ""};
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    outcome.output += buffer.data();
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return outcome;
}

class UnderMpirun : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip();
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  static std::string reason_to_skip() {
    if (!std::filesystem::exists(std::string(PROGRAM_FOLDER) + "/mpi_suite")) {
      return "this build has no `mpi` backend";
    }
    if (std::system("command -v mpirun >/dev/null") != 0) {
      return "mpirun is not installed";
    }
    return "";
  }

  void expect_line(const Outcome& outcome, const std::string& line) {
    EXPECT_NE(outcome.output.find(line + "\n"), std::string::npos)
        << "no line `" << line << "` in:\n"
        << outcome.output;
  }

  void expect_ended(const Outcome& outcome, bool success, double seconds) {
    EXPECT_EQ(outcome.status == 0, success)
        << "status " << outcome.status << "\n"
        << outcome.output;
    EXPECT_LT(outcome.seconds, seconds) << outcome.output;
  }
};
