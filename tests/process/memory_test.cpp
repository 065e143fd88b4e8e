// SPDX-License-Identifier: Apache-2.0
// Tests machines with little shared memory, and outdated addresses of shared
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/json.h"
#include "comm/shared_memory.h"
#include "support/run_processes.h"

namespace accelerate {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::vector<ProcessResult> run_scenario(
    const std::string& scenario,
    const std::string& backend,
    const std::string& argument = "") {
  return run_processes(
      2,
      test_program_path("process_worker"),
      {scenario, backend, "20000", "10000", argument});
}

TEST(SharedMemoryOfProcesses, DoesNotNeedDevShm) {
  const auto results = run_scenario("full_dev_shm", "auto");
  if (results[0].output == "not allowed to mount\n") {
    GTEST_SKIP() << "only root can mount a small /dev/shm";
  }

  for (const ProcessResult& result : results) {
    EXPECT_THAT(
        result.output,
        ContainsRegex("no space left\nsegment [0-9]+\njoined shm\njoin: ok\n"));
  }
}

// Rank 0 is late, so rank 1 finds only the address of an older run in the
// store.
std::vector<ProcessResult> join_with_address(
    const std::string& address, const std::string& backend) {
  Processes processes(
      2, test_program_path("process_worker"), {"late_first_rank", backend});
  processes.store().set(
      "accelerate/0/0/shared memory/0",
      "=" + Json::object({{"value", address}}).dump());
  processes.store().wait(
      {"accelerate/0/0/opening shared memory/1"},
      std::chrono::milliseconds(30'000));
  processes.send_line(0, "go");
  return processes.wait();
}

TEST(StaleAddress, OfADeadProcessFallsBackToGloo) {
  const auto results =
      join_with_address("4194305:9:00112233445566778899aabbccddeeff", "auto");

  for (const ProcessResult& result : results) {
    EXPECT_THAT(result.output, HasSubstr("joined gloo\njoin: ok\n"));
  }
}

TEST(StaleAddress, OfOtherMemoryIsDetectedByTheNonce) {
  const auto other = SharedMemory::create(4096);
  const std::string address = other->address();
  const std::string older =
      address.substr(0, address.rfind(':')) + ":" + std::string(32, '0');

  for (const ProcessResult& result : join_with_address(older, "shm")) {
    EXPECT_THAT(
        result.output,
        ContainsRegex(
            "join: UnsupportedError: backend `shm` needs all 2 ranks on one "
            "machine, but they share no memory\n"
            "  rank 1: shared memory `[0-9]+:[0-9]+:0+` cannot be opened: "
            "/proc/[0-9]+/fd/[0-9]+ belongs to another machine or to an "
            "earlier run\n"
            "hint: use `ACCELERATE_BACKEND=gloo`, or leave the backend out\n"));
  }
}

TEST(StaleAddress, OfTheGroupBeforeAResetIsNotReused) {
  for (const char* backend : {"shm", "gloo"}) {
    for (const ProcessResult& result : run_scenario("joins_again", backend)) {
      EXPECT_EQ(result.output, "join: ok\njoin: ok\njoin: ok\n");
    }
  }
}

TEST(NoMemory, ForTheSegmentFallsBackToGloo) {
  for (const ProcessResult& result : run_scenario("no_segment", "auto")) {
    EXPECT_THAT(result.output, HasSubstr("joined gloo\njoin: ok\n"));
  }
}

TEST(NoMemory, ForTheSegmentIsAnErrorWhenShmIsRequested) {
  for (const ProcessResult& result : run_scenario("no_segment", "shm")) {
    EXPECT_THAT(
        result.output,
        ContainsRegex(
            "join: UnsupportedError: backend `shm` needs all 2 ranks on one "
            "machine, but they share no memory\n"
            "  rank 0: cannot allocate [0-9]+ bytes of shared memory: File too "
            "large\n"));
  }
}

TEST(NoMemory, ToMapTheSegmentIsAnErrorThatNamesTheRank) {
  for (const char* rank : {"0", "1"}) {
    for (const ProcessResult& result :
         run_scenario("no_address_space", "shm", rank)) {
      EXPECT_THAT(
          result.output,
          ContainsRegex(
              std::string("share no memory\n  rank ") + rank +
              ": cannot map [0-9]+ bytes of shared memory: Cannot allocate "
              "memory\nhint: "));
    }
  }
}

}  // namespace
}  // namespace accelerate
