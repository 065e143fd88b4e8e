// SPDX-License-Identifier: Apache-2.0
// In a run on one machine, no socket listens on an address that other machines
// can reach.
#include <set>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/listening.h"
#include "support/run_processes.h"

namespace accelerate {
namespace {

struct StoreSetup {
  std::string backend;
  bool store_in_test;
  std::size_t min_sockets;  // that are listening
};

class Listening : public testing::TestWithParam<StoreSetup> {};

TEST_P(Listening, OnlyOnLoopback) {
  const StoreSetup& setup = GetParam();
  Processes processes(
      2,
      test_program_path("process_worker"),
      {"listen", setup.backend},
      {.store_in_test = setup.store_in_test});
  processes.wait_for(0, "ready");
  processes.wait_for(1, "ready");

  std::multiset<std::string> addresses;
  for (const pid_t pid : {::getpid(), processes.pid(0), processes.pid(1)}) {
    addresses.merge(listening_addresses(std::to_string(pid)));
  }
  processes.send_line(0, "go");
  processes.send_line(1, "go");
  const auto results = processes.wait();

  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].output;
  EXPECT_GE(addresses.size(), setup.min_sockets)
      << "too few sockets were checked";
  EXPECT_THAT(addresses, testing::Each(kLoopbackInHex));
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    Listening,
    testing::Values(
        StoreSetup{"shm", true, 1},
        StoreSetup{"shm", false, 1},
        StoreSetup{"gloo", true, 3},
        StoreSetup{"gloo", false, 3}),
    [](const auto& test) {
      return test.param.backend +
             (test.param.store_in_test ? "_launcher" : "_rank_0");
    });

// By default, Gloo listens on the address to which the hostname resolves.
TEST(ListeningWithoutSharedMemory, OnlyOnLoopback) {
  Processes processes(
      2, test_program_path("process_worker"), {"listen_with_outside_hostname"});
  processes.wait_for(0, "\n");
  if (processes.output(0).starts_with("not allowed to mount")) {
    GTEST_SKIP() << "only root can give this machine another address";
  }
  processes.wait_for(0, "ready");
  processes.wait_for(1, "ready");

  std::multiset<std::string> addresses;
  for (const int rank : {0, 1}) {
    addresses.merge(listening_addresses(std::to_string(processes.pid(rank))));
  }
  processes.send_line(0, "go");
  processes.send_line(1, "go");
  const auto results = processes.wait();

  EXPECT_THAT(results[0].output, testing::HasSubstr("joined gloo"));
  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].output;
  EXPECT_EQ(addresses.size(), 2) << "too few sockets were checked";
  EXPECT_THAT(addresses, testing::Each(kLoopbackInHex));
}

// Rank 1 connects to the store on a port from the ephemeral range, long before
// rank 0 opens it.
TEST(StoreOfRank0, IsFoundByARankThatStartedEarlier) {
  for (int i = 0; i < 3; ++i) {
    Processes processes(
        2,
        test_program_path("process_worker"),
        {"late_first_rank", "shm"},
        {.store_in_test = false});
    processes.wait_for(1, "looking");
    processes.send_line(0, "go");
    const auto results = processes.wait();

    EXPECT_THAT(results[0].output, testing::HasSubstr("join: ok\n"));
    EXPECT_THAT(results[1].output, testing::HasSubstr("join: ok\n"));
  }
}

}  // namespace
}  // namespace accelerate
