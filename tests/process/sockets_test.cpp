// SPDX-License-Identifier: Apache-2.0
// On one host nothing listens where another host could connect.
#include <set>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/listening.h"
#include "support/run_processes.h"

namespace accelerate {
namespace {

struct Meeting {
  std::string backend;
  bool launcher_hosts_store;
  std::size_t least;  // listening sockets
};

class Listening : public testing::TestWithParam<Meeting> {};

TEST_P(Listening, OnlyOnLoopback) {
  const Meeting& meeting = GetParam();
  Processes processes(
      2,
      beside_this_program("process_worker"),
      {"listen", meeting.backend},
      {.host_store = meeting.launcher_hosts_store});
  processes.wait_for(0, "ready");
  processes.wait_for(1, "ready");

  std::multiset<std::string> addresses;
  for (const pid_t pid : {::getpid(), processes.pid(0), processes.pid(1)}) {
    addresses.merge(listening_addresses(std::to_string(pid)));
  }
  processes.tell(0, "go");
  processes.tell(1, "go");
  const auto results = processes.wait();

  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].output;
  EXPECT_GE(addresses.size(), meeting.least) << "the test looked at nothing";
  EXPECT_THAT(addresses, testing::Each(kLoopbackInHex));
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    Listening,
    testing::Values(
        Meeting{"shm", true, 1},
        Meeting{"shm", false, 1},
        Meeting{"gloo", true, 3},
        Meeting{"gloo", false, 3}),
    [](const auto& test) {
      return test.param.backend +
             (test.param.launcher_hosts_store ? "_launcher" : "_rank_0");
    });

// Gloo asks the host's name where to listen, unless it knows better.
TEST(ListeningWithoutCommonMemory, OnlyOnLoopback) {
  Processes processes(
      2, beside_this_program("process_worker"), {"listen_on_a_named_host"});
  processes.wait_for(0, "\n");
  if (processes.output(0).starts_with("not allowed to mount")) {
    GTEST_SKIP() << "only root can give this host another address";
  }
  processes.wait_for(0, "ready");
  processes.wait_for(1, "ready");

  std::multiset<std::string> addresses;
  for (const int rank : {0, 1}) {
    addresses.merge(listening_addresses(std::to_string(processes.pid(rank))));
  }
  processes.tell(0, "go");
  processes.tell(1, "go");
  const auto results = processes.wait();

  EXPECT_THAT(results[0].output, testing::HasSubstr("joined gloo"));
  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].output;
  EXPECT_EQ(addresses.size(), 2) << "the test looked at nothing";
  EXPECT_THAT(addresses, testing::Each(kLoopbackInHex));
}

// Rank 1 asks for the store on a port that the kernel also hands out to
// connections, long before rank 0 opens it.
TEST(StoreOfRank0, IsFoundByARankThatCameFirst) {
  for (int again = 0; again < 3; ++again) {
    Processes processes(
        2,
        beside_this_program("process_worker"),
        {"late_first_rank", "shm"},
        {.host_store = false});
    processes.wait_for(1, "looking");
    processes.tell(0, "go");
    const auto results = processes.wait();

    EXPECT_THAT(results[0].output, testing::HasSubstr("join: ok\n"));
    EXPECT_THAT(results[1].output, testing::HasSubstr("join: ok\n"));
  }
}

}  // namespace
}  // namespace accelerate
