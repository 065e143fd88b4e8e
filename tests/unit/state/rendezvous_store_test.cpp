// SPDX-License-Identifier: Apache-2.0
#include "state/rendezvous_store.h"

#include <filesystem>
#include <future>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/error.h"
#include "base/socket.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Topology one_of_two(int rank) {
  Topology topology;
  topology.launcher = Launcher::torchrun;
  topology.process_index = topology.local_process_index = rank;
  topology.num_processes = topology.local_num_processes = 2;
  return topology;
}

class BadInitMethod : public testing::TestWithParam<std::string> {};

TEST_P(BadInitMethod, ErrorListsTheValidForms) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { open_store(one_of_two(0), GetParam(), milliseconds(1000)); }),
      "init_method is `" + GetParam() +
          "`, but must be one of env://, tcp://host:port, file:///path");
}

INSTANTIATE_TEST_SUITE_P(
    OpenStore,
    BadInitMethod,
    testing::Values(
        "",
        "env",
        "udp://host:1",
        "tcp://",
        "tcp://host",
        "tcp://host:",
        "tcp://:29500",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://host:12x",
        "tcp://host:-1",
        "file://relative",
        "file://"));

TEST(OpenStore, ConnectsToATcpAddress) {
  const int listener = listen_on_loopback(0);
  const std::string method =
      "tcp://127.0.0.1:" + std::to_string(bound_port(listener));
  ::close(listener);

  const auto server = open_store(one_of_two(0), method, milliseconds(5000));
  const auto client = open_store(one_of_two(1), method, milliseconds(5000));

  // The second store that a process opens has separate keys, although both
  // stores connect to the same server.
  server->set("key", "value");
  EXPECT_EQ(server->get_to_str("key"), "value");
  EXPECT_FALSE(client->check({"key"}));
}

TEST(OpenStore, UsesAFile) {
  const std::string folder = fresh_folder();

  const auto store = open_store(
      one_of_two(0), "file://" + folder + "/store", milliseconds(1000));
  store->set("key", "value");

  EXPECT_EQ(store->get_to_str("key"), "value");
  EXPECT_TRUE(std::filesystem::exists(folder + "/store"));
}

TEST(OpenStore, UsesAPrivateFileWithoutAPort) {
  Topology topology = one_of_two(0);
  topology.launcher = Launcher::openmpi;
  topology.scratch_folder = fresh_folder();

  open_store(topology, std::nullopt, milliseconds(1000))->set("key", "value");

  const std::string folder =
      topology.scratch_folder + "/accelerate-" + std::to_string(::getuid());
  struct stat status{};
  ASSERT_EQ(::stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_FALSE(std::filesystem::is_empty(folder));
}

TEST(OpenStore, RejectsAFolderThatOtherUsersCanWriteTo) {
  Topology topology = one_of_two(0);
  topology.launcher = Launcher::openmpi;
  topology.scratch_folder = fresh_folder();
  const std::string folder =
      topology.scratch_folder + "/accelerate-" + std::to_string(::getuid());
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0777);

  EXPECT_EQ(
      message_of<IoError>(
          [&] { open_store(topology, std::nullopt, milliseconds(1000)); }),
      folder + " is not a folder that only this user can access");
}

TEST(OpenStore, NeedsAnAddressForSeveralMachines) {
  Topology topology = one_of_two(0);
  topology.num_nodes = 2;
  topology.launcher = Launcher::openmpi;

  EXPECT_THAT(
      message_of<ConfigError>(
          [&] { open_store(topology, std::nullopt, milliseconds(1000)); }),
      HasSubstr("MASTER_ADDR"));
}

TEST(OpenStore, ReportsAnAddressWithoutAServer) {
  const int listener = listen_on_loopback(0);
  const int port = bound_port(listener);
  ::close(listener);

  EXPECT_EQ(
      message_of<DistributedError>([&] {
        open_store(
            one_of_two(1),
            "tcp://127.0.0.1:" + std::to_string(port),
            milliseconds(50));
      }),
      "rank 1 cannot reach the store at 127.0.0.1:" + std::to_string(port) +
          ": no server started listening on this port within 50 ms");
}

TEST(ListenOnLoopback, ReportsAPortInUse) {
  const int listener = listen_on_loopback(0);
  const int port = bound_port(listener);

  EXPECT_EQ(
      message_of<IoError>([&] { listen_on_loopback(port); }),
      "cannot listen on 127.0.0.1:" + std::to_string(port) +
          ": Address already in use");
  ::close(listener);
}

// Returns the topology of a process on one of two nodes, both of which are
// simulated on this machine.
Topology in_step(std::int64_t step, int node, int rank) {
  Topology topology;
  topology.launcher = Launcher::slurm;
  topology.process_index = rank;
  topology.num_processes = topology.num_nodes = 2;
  topology.node_index = node;
  topology.main_address = "127.0.0.1";
  topology.slurm_step = SlurmStep{4712, step};
  return topology;
}

// `srun --distribution arbitrary` may put rank 0 on the second node.
TEST(SlurmStore, IsServedOnTheFirstNodeWhateverItsRank) {
  constexpr milliseconds kTimeout(20000);
  const Topology second = in_step(0, 1, 0);
  auto joined = std::async(std::launch::async, [&] {
    return open_store(second, std::nullopt, kTimeout);
  });
  const auto server = open_store(in_step(0, 0, 1), std::nullopt, kTimeout);
  const auto client = joined.get();

  EXPECT_NE(server, nullptr);
  EXPECT_NE(client, nullptr);
}

TEST(SlurmStore, UsesTheNextPortAndJoinsOnlyItsOwnStep) {
  constexpr milliseconds kTimeout(20000);
  const auto ports = SlurmStep{4712, 1}.ports();
  // Another step listens on the first port.
  Topology other = in_step(9, 0, 0);
  other.main_port = ports[0];
  const auto stranger = open_store(other, std::nullopt, kTimeout);
  auto joined = std::async(std::launch::async, [&] {
    return open_store(in_step(1, 1, 1), std::nullopt, kTimeout);
  });

  const auto server = open_store(in_step(1, 0, 0), std::nullopt, kTimeout);

  EXPECT_NE(joined.get(), nullptr);
}

TEST(SlurmStore, NamesTheStrangerOnTheUsersPort) {
  constexpr milliseconds kTimeout(20000);
  Topology other = in_step(2, 0, 0);
  other.main_port = SlurmStep{4712, 2}.ports()[0];
  const auto stranger = open_store(other, std::nullopt, kTimeout);
  Topology ours = in_step(3, 1, 1);
  ours.main_port = other.main_port;

  EXPECT_EQ(
      message_of<DistributedError>(
          [&] { open_store(ours, std::nullopt, milliseconds(2000)); }),
      "rank 1 cannot reach the store of step 3 of Slurm job 4712 at 127.0.0.1: "
      "tcp:127.0.0.1:" +
          std::to_string(*other.main_port) +
          " is the store of step 2 of Slurm job 4712");
}

}  // namespace
}  // namespace accelerate
