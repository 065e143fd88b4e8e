// SPDX-License-Identifier: Apache-2.0
// On one host nothing listens where another host could connect.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

// Inodes of the sockets that a process holds.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  const auto folder = "/proc/" + std::to_string(pid) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) {
      inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  return inodes;
}

// Local addresses, in the kernel's hexadecimal form, of the listening sockets
// among `inodes`.
std::multiset<std::string> listening(const std::set<std::string>& inodes) {
  std::multiset<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // The header.
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skip, inode;
      fields >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) {
        fields >> skip;
      }
      fields >> inode;
      constexpr const char* kListens = "0A";
      if (state == kListens && inodes.contains(inode)) {
        addresses.insert(local.substr(0, local.find(':')));
      }
    }
  }
  return addresses;
}

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
    addresses.merge(listening(sockets_of(pid)));
  }
  processes.tell(0, "go");
  processes.tell(1, "go");
  const auto results = processes.wait();

  EXPECT_EQ(results[0].exit_code, 0) << results[0].output;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].output;
  EXPECT_GE(addresses.size(), meeting.least) << "the test looked at nothing";
  constexpr const char* kLoopback = "0100007F";  // 127.0.0.1
  EXPECT_THAT(addresses, testing::Each(kLoopback));
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
