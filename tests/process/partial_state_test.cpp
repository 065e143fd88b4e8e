// SPDX-License-Identifier: Apache-2.0
// `PartialState` in real processes.
#include "accelerate/partial_state.h"

#include <algorithm>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_cores.h"
#include "support/run_processes.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string state_worker() {
  return test_program_path("process_worker");
}

TEST(PartialStateOfProcesses, FindsTheFirstProcessOfEachMachine) {
  const TemporaryDirectory folder;

  const auto results = run_processes(
      4,
      state_worker(),
      {"two_machines", "auto", "20000", "10000", folder.path().string()});

  for (const ProcessResult& result : results) {
    const bool first = result.rank % 2 == 0;
    EXPECT_EQ(result.exit_code, 0) << describe(result) << result.output;
    EXPECT_THAT(result.output, Not(HasSubstr("came before")));
    for (const char* line : {"first of its machine\n", "printed\n"}) {
      EXPECT_EQ(result.output.find(line) != std::string::npos, first)
          << describe(result) << result.output;
    }
    EXPECT_EQ(
        result.output.find("first of all\n") != std::string::npos,
        result.rank == 0);
  }
}

TEST(PartialStateOfProcesses, DividesThePhysicalCoresAndWarns) {
  const auto cores = count_cores(allowed_cpus());
  const std::string each = std::to_string(std::max<std::int64_t>(1, cores / 2));

  const auto results = run_processes(
      2,
      state_worker(),
      {"threads"},
      {.environment = {{"OMP_NUM_THREADS", ""}}});

  for (const ProcessResult& result : results) {
    EXPECT_THAT(result.output, HasSubstr("threads: " + each + "\n"));
  }
  EXPECT_THAT(
      results[0].output,
      HasSubstr(
          "warning: OMP_NUM_THREADS is not set: each of the 2 processes on "
          "this machine uses " +
          each + " of the " + std::to_string(cores) + " cores\n"));
  EXPECT_THAT(results[1].output, Not(HasSubstr("warning")));
}

TEST(PartialStateOfProcesses, NameRank0WhenItEndsDuringTheSetUp) {
  const auto results = run_processes(
      3, state_worker(), {"lost_store"}, {.store_in_test = false});

  EXPECT_THAT(results[0].output, HasSubstr("uncaught: the data set is empty"));
  for (const int rank : {1, 2}) {
    const std::string& output = results[static_cast<std::size_t>(rank)].output;
    EXPECT_THAT(
        output,
        HasSubstr(
            "constructor: DistributedError: joining the group (shared memory): "
            "rank " +
            std::to_string(rank) +
            " lost the connection to the store in rank 0, which has probably "
            "exited: "));
    EXPECT_THAT(output, HasSubstr("the root cause is in the log of rank 0"));
    // Skips LibTorch's log lines.
    const auto report = output.find("constructor: ");
    EXPECT_THAT(
        output.substr(std::min(report, output.size())),
        Not(HasSubstr("Exception raised from")));
  }
}

// The ranks share memory, but cannot reach each other through loopback.
TEST(GlooBetweenNetworkNamespaces, UsesTheInterface) {
  const TemporaryDirectory folder;

  const auto results = run_processes(
      2,
      state_worker(),
      {"two_networks",
       "gloo",
       "20000",
       "10000",
       (folder.path() / "store").string()});

  for (const ProcessResult& result : results) {
    if (result.output.find("not allowed") != std::string::npos) {
      GTEST_SKIP() << "only root can create network namespaces";
    }
    EXPECT_THAT(result.output, HasSubstr("reduce: ok\n"));
  }
}

TEST(PartialStateOfProcesses, OpenAClosedStdin) {
  for (const ProcessResult& result :
       run_processes(2, state_worker(), {"closed_stdin"})) {
    EXPECT_THAT(result.output, HasSubstr("/dev/null\n"));
  }
}

TEST(PartialStateOfProcesses, RespectsOmpNumThreads) {
  // LibTorch does not use more threads than there are CPUs.
  const auto cpus = std::min(2U, std::thread::hardware_concurrency());

  const auto results = run_processes(
      2,
      state_worker(),
      {"threads"},
      {.environment = {{"OMP_NUM_THREADS", "2"}}});

  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.output, "threads: " + std::to_string(cpus) + "\n");
  }
}

}  // namespace
}  // namespace accelerate
