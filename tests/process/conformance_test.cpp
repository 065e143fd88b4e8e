// SPDX-License-Identifier: Apache-2.0
// Tests every operation of every backend, with real processes.
#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

using Case = std::tuple<std::string, int>;

std::string conformance_name(const testing::TestParamInfo<Case>& info) {
  const auto& [backend, size] = info.param;
  return backend + "_" + std::to_string(size);
}

class EveryBackendInProcesses : public testing::TestWithParam<Case> {};

TEST_P(EveryBackendInProcesses, MatchesThePlainImplementation) {
  const auto& [backend, size] = GetParam();

  EXPECT_NO_THROW(run_processes_or_throw(
      size,
      test_program_path("process_worker"),
      {"conformance", backend},
      {.timeout = std::chrono::seconds(200)}));
}

class MixedInProcesses : public testing::TestWithParam<Case> {};

TEST_P(MixedInProcesses, StayInStepOverManyCollectives) {
  const auto& [backend, size] = GetParam();
  // Fewer calls without shared memory, because each call needs an additional
  // Gloo collective.
  const std::string count = backend == "network" ? "300"
                            : backend == "gloo"  ? "2000"
                                                 : "10000";

  EXPECT_NO_THROW(run_processes_or_throw(
      size,
      test_program_path("process_worker"),
      {"mixed", backend, "20000", "10000", count},
      {.timeout = std::chrono::seconds(100)}));
}

std::string line_with(const std::string& start, const std::string& output) {
  const auto at = output.find(start);
  return at == std::string::npos
             ? "no " + start
             : output.substr(at, output.find('\n', at) - at);
}

TEST(RandomNumbersInProcesses, AreTheSameAfterSynchronization) {
  const auto results = run_processes(
      2, test_program_path("process_worker"), {"random_numbers", "shm"});

  const std::string& first = results[0].output;
  const std::string& second = results[1].output;
  EXPECT_NE(line_with("before ", first), line_with("before ", second));
  EXPECT_EQ(line_with("after ", first), line_with("after ", second));
  EXPECT_NE(line_with("after ", first), "no after ");
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    EveryBackendInProcesses,
    testing::Combine(testing::Values("shm", "gloo"), testing::Values(2, 4)),
    conformance_name);

// `network` checks calls and waits in a different way, but supports the same
// operations.
INSTANTIATE_TEST_SUITE_P(
    Collectives,
    MixedInProcesses,
    testing::Combine(
        testing::Values("shm", "gloo", "network"), testing::Values(2, 4)),
    conformance_name);

}  // namespace
}  // namespace accelerate
