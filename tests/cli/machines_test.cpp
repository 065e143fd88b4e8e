// SPDX-License-Identifier: Apache-2.0
// Several machines: simulated on the loopback interface of one machine and, if
// this machine allows it, with network namespaces that have their own
// addresses.
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cli_environment.h"
#include "support/network_machines.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;
using Results = std::vector<CommandResult>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Machines : public CliTest {
 protected:
  std::string marks() const { return home_ + "/mark"; }

  // The prefix that runs a command on machine `rank`.
  virtual std::string on_machine(int) const { return ""; }
  virtual std::string main_address() const { return "127.0.0.1"; }

  std::string line(int rank, int machines, const std::string& arguments) const {
    return on_machine(rank) + "accelerate launch --cpu --num_machines " +
           std::to_string(machines) + " --num_processes " +
           std::to_string(2 * machines) + " --machine_rank " +
           std::to_string(rank) + " --main_process_ip " + main_address() +
           " --main_process_port " + std::to_string(port()) + " " + arguments;
  }

  // The port differs between processes, because tests may run concurrently.
  static int port() { return 20000 + ::getpid() % 10000; }

  std::future<CommandResult> start(const std::string& text) const {
    auto options = shell(text);
    options.timeout = std::chrono::seconds(60);
    return std::async(
        std::launch::async, [options] { return run_command(options); });
  }

  Results run_all(const std::vector<std::string>& lines) const {
    std::vector<std::future<CommandResult>> started;
    for (const auto& text : lines) {
      started.push_back(start(text));
    }
    Results results;
    for (auto& future : started) {
      results.push_back(future.get());
    }
    return results;
  }

  bool wait_for_marks(int count) const {
    for (int i = 0; i < 3000; ++i) {
      int found = 0;
      for (int rank = 0; rank < count; ++rank) {
        found += fs::exists(marks() + std::to_string(rank)) ? 1 : 0;
      }
      if (found == count) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

TEST_F(Machines, RunAsOneJob) {
  const std::string program =
      "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR'";

  const Results results = run_all({line(0, 2, program), line(1, 2, program)});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(contains(results[0].out, "0/4 0 0 127.0.0.1"));
  EXPECT_TRUE(contains(results[0].out, "1/4 1 0 127.0.0.1"));
  EXPECT_TRUE(contains(results[1].out, "2/4 0 1 127.0.0.1"));
  EXPECT_TRUE(contains(results[1].out, "3/4 1 1 127.0.0.1"));
}

// All nodes use the file that `config default` saved on one of them.
TEST_F(Machines, NeedNoOptionsUnderSlurm) {
  const auto saved = run("accelerate config default --cpu --num_processes 2");
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const auto on_node = [](int node) {
    return "SLURM_JOB_ID=" + std::to_string(port()) +
           " SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 "
           "SLURM_NODEID=" +
           std::to_string(node) +
           " SLURM_STEP_NODELIST=127.0.0.1,localhost accelerate launch sh -c "
           "'echo $RANK/$WORLD_SIZE $GROUP_RANK'";
  };

  const Results results = run_all({on_node(0), on_node(1)});

  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].err;
  EXPECT_TRUE(contains(results[0].out, "0/4 0")) << results[0].out;
  EXPECT_TRUE(contains(results[0].out, "1/4 0")) << results[0].out;
  EXPECT_TRUE(contains(results[1].out, "2/4 1")) << results[1].out;
  EXPECT_TRUE(contains(results[1].out, "3/4 1")) << results[1].out;
}

TEST_F(Machines, UseTheHostnameOfMachine0OnDifferentNetworks) {
  char hostname[256] = {};
  ::gethostname(hostname, sizeof(hostname) - 1);
  const std::string program =
      "--same_network=false sh -c 'echo at $MASTER_ADDR'";

  const Results results = run_all({line(0, 2, program), line(1, 2, program)});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(contains(result.out, std::string("at ") + hostname))
        << result.out;
  }
}

TEST_F(Machines, GetRanksInTheOrderOfJoiningWithC10d) {
  std::string command = line(0, 2, "--rdzv_backend c10d sh -c 'echo $RANK'");
  const auto at = command.find("--machine_rank 0 ");
  command.erase(at, 17);

  const Results results = run_all({command, command});

  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].err;
  const std::string all = results[0].out + results[1].out;
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_TRUE(contains(all, rank)) << all;
  }
}

TEST_F(Machines, ReportTheFirstFailureOnEveryMachine) {
  const std::string program =
      "sh -c 'if [ $RANK = 3 ]; then echo ouch >&2; exit 9; fi; exec sleep 60'";

  const Results results = run_all({line(0, 2, program), line(1, 2, program)});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 9) << result.err;
    EXPECT_TRUE(contains(result.err, "error: rank 3 failed first"))
        << result.err;
    EXPECT_TRUE(contains(result.err, "ouch"));
    EXPECT_LT(result.seconds, 8);
  }
}

TEST_F(Machines, RestartTogether) {
  const std::string program =
      "--max_restarts 1 sh -c 'if [ $ACCELERATE_RESTART_COUNT = 1 ]; then echo "
      "again; exit 0; fi; [ $RANK = 1 ] && exit 4; exec sleep 60'";

  const Results results = run_all({line(0, 2, program), line(1, 2, program)});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(contains(result.out, "again"));
    EXPECT_TRUE(contains(result.err, "restart 1 of 1")) << result.err;
    EXPECT_LT(result.seconds, 8)
        << "both noticed at once that all workers had exited";
  }
}

// Machine 1 is stopped, so that machine 0 waits for it before the restart.
TEST_F(Machines, HandleSignalsDuringTheRendezvousOfARestart) {
  const std::string program =
      "--max_restarts 1 --stop_timeout 0.5 sh -c 'touch $HOME/mark$RANK; if [ "
      "$RANK = 0 ]; then while [ ! -e $HOME/go ]; do sleep 0.05; done; exit 4; "
      "fi; exec sleep 60'";
  auto second = shell("exec " + line(1, 2, program));
  second.timeout = std::chrono::seconds(60);
  std::atomic<bool> over = false;
  second.watch = [&, stopped = false](pid_t pid, const std::string&) mutable {
    if (!stopped && wait_for_marks(4)) {
      ::kill(pid, SIGSTOP);
      std::ofstream(home_ + "/go") << "\n";
      stopped = true;
    }
    if (over) {
      ::kill(pid, SIGKILL);
    }
    return over.load();
  };
  auto stopped =
      std::async(std::launch::async, [second] { return run_command(second); });
  auto first = shell("exec " + line(0, 2, program));
  first.timeout = std::chrono::seconds(60);
  std::chrono::steady_clock::time_point interrupted;
  first.watch = [&, asked = false](pid_t pid, const std::string& err) mutable {
    if (!asked && contains(err, "restart 1 of 1")) {
      ::kill(pid, SIGQUIT);
      asked = true;
    }
    if (!contains(err, "waiting for the other machines")) {
      return false;
    }
    interrupted = std::chrono::steady_clock::now();
    ::kill(pid, SIGINT);
    return true;
  };

  const auto result = run_command(first);
  const auto ended = std::chrono::steady_clock::now();
  over = true;
  (void)stopped.get();

  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_LT(ended - interrupted, std::chrono::seconds(3)) << result.err;
}

TEST_F(Machines, CanJoinAgainAfterAnInterrupt) {
  auto first = start(line(0, 3, "true"));
  auto second = shell("exec " + line(1, 3, "true"));
  bool interrupted = false;
  second.watch = [&](pid_t pid, const std::string& err) {
    // "Joining" is printed before the launcher connects, so the test waits a
    // moment.
    if (contains(err, "Joining") && !interrupted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(pid, SIGINT);
      interrupted = true;
    }
    return interrupted;
  };
  const auto interrupted_result = run_command(second);
  const Results rest = run_all({line(1, 3, "true"), line(2, 3, "true")});

  EXPECT_EQ(interrupted_result.exit_code, 130) << interrupted_result.err;
  EXPECT_EQ(first.get().exit_code, 0);
  EXPECT_EQ(rest[0].exit_code, 0) << rest[0].err;
  EXPECT_EQ(rest[1].exit_code, 0) << rest[1].err;
}

// A restart needs all machines, so it must not wait for `--rdzv_timeout`.
TEST_F(Machines, DoNotRestartAfterAMachineDisconnected) {
  auto first = start(line(0, 2, "--max_restarts 3 $WORKER hang " + marks()));
  auto options =
      shell("exec " + line(1, 2, "--max_restarts 3 $WORKER hang " + marks()));
  options.watch = [&](pid_t pid, const std::string&) {
    if (!wait_for_marks(4)) {
      return false;
    }
    ::kill(pid, SIGKILL);
    return true;
  };
  (void)run_command(options);
  const auto result = first.get();

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "disconnected")) << result.err;
  EXPECT_LT(result.seconds, 10);
}

TEST_F(Machines, ListAMissingMachine) {
  const Results results = run_all({line(0, 2, "--rdzv_timeout 1 true")});

  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_TRUE(contains(results[0].err, "1 of 2 machines did not join"));
  EXPECT_TRUE(
      contains(results[0].err, "1        -     ") ||
      contains(results[0].err, "missing"))
      << results[0].err;
  EXPECT_LT(results[0].seconds, 5);
}

TEST_F(Machines, ListDifferentSettings) {
  const Results results =
      run_all({line(0, 2, "true"), line(1, 2, "--mixed_precision bf16 true")});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(
        contains(result.err, "error: the machines have different settings"));
    EXPECT_TRUE(contains(result.err, "mixed_precision  no")) << result.err;
  }
}

TEST_F(Machines, ReportAWrongSecret) {
  const Results results = run_all(
      {line(0, 2, "--rdzv_timeout 3 true"),
       "sleep 0.5; ACCELERATE_JOB_SECRET=0123456789abcdef " +
           line(1, 2, "--rdzv_timeout 3 true")});

  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_TRUE(contains(results[0].err, "refused a connection from 127.0.0.1"));
  EXPECT_TRUE(contains(results[0].err, "refused: wrong secret"))
      << results[0].err;
  EXPECT_TRUE(
      contains(results[0].err, "hint: give every machine the same job secret"))
      << results[0].err;
  EXPECT_EQ(results[1].exit_code, 2);
  EXPECT_TRUE(contains(results[1].err, "rejected this process's secret"));
}

// The joining machine has a different home folder.
TEST_F(Machines, ReportAMissingSecret) {
  auto first = start(line(0, 2, "--rdzv_timeout 5 true"));
  auto second =
      shell("HOME=$HOME/other " + line(1, 2, "--rdzv_timeout 5 true"));

  const auto joining = run_command(second);
  const auto result = first.get();

  EXPECT_EQ(joining.exit_code, 2);
  EXPECT_TRUE(contains(
      joining.err,
      "error: this machine does not have the job secret: "
      "ACCELERATE_JOB_SECRET is not set, and " +
          home_ +
          "/other/.cache/huggingface/accelerate/job_secret does not "
          "exist"))
      << joining.err;
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(
      contains(result.err, "warning: refused a connection from 127.0.0.1:"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "refused: the client has no secret"))
      << result.err;
}

TEST_F(Machines, ListDifferentVersions) {
  std::ofstream(home_ + "/other.json")
      << R"({"compiler": "c++", "torch_version": "2.99.0"})";

  const Results results = run_all(
      {line(0, 2, "--stop_timeout 3 true"),
       "ACCELERATE_TOOLCHAIN=$HOME/other.json " +
           line(1, 2, "--same_network=false true")});

  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(
        contains(result.err, "error: the machines have different settings"));
    for (const char* name :
         {"LibTorch ", "2.99.0", "same_network ", "stop_timeout "}) {
      EXPECT_TRUE(contains(result.err, name)) << name << "\n" << result.err;
    }
    EXPECT_FALSE(contains(result.err, "rdzv_timeout")) << result.err;
  }
}

TEST_F(Machines, RejectASecretFileThatOtherUsersCanRead) {
  std::ofstream(home_ + "/secret") << "0123456789abcdef0123456789abcdef\n";
  fs::permissions(home_ + "/secret", fs::perms(0644));

  const auto result = run(line(0, 2, "--job_secret_file $HOME/secret true"));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.err, "can be read or changed by other users"))
      << result.err;
}

TEST_F(Machines, WaitForALateMachine) {
  const Results results =
      run_all({line(0, 2, "true"), "sleep 1; " + line(1, 2, "true")});

  EXPECT_EQ(results[0].exit_code, 0) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 0) << results[1].err;
}

TEST_F(Machines, NoticeAKilledLauncherImmediately) {
  auto first = start(line(0, 2, "$WORKER hang " + marks()));
  auto options = shell("exec " + line(1, 2, "$WORKER hang " + marks()));
  options.watch = [&](pid_t pid, const std::string&) {
    if (!wait_for_marks(4)) {
      return false;
    }
    ::kill(pid, SIGKILL);
    return true;
  };
  const auto killed = run_command(options);
  const auto result = first.get();

  EXPECT_EQ(killed.exit_code, 137);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "error: machine 1 (")) << result.err;
  EXPECT_TRUE(contains(result.err, "disconnected")) << result.err;
  EXPECT_LT(result.seconds, 10);
}

TEST_F(Machines, IgnoreGarbageAtThePort) {
  auto first = start(line(0, 2, "true"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (int round = 0; round < 300; ++round) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
        0) {
      const std::string bytes(
          static_cast<std::size_t>(round * 13 % 700), static_cast<char>(round));
      (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    ::close(fd);
  }
  const auto second = start(line(1, 2, "true")).get();
  const auto result = first.get();

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_TRUE(contains(result.err, ": the client did not authenticate"))
      << result.err;
}

TEST_F(Machines, NeedAnAddress) {
  const auto result = run("accelerate launch --cpu --num_machines 2 true");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.err, "needs the address of machine 0"));
}

class NetworkedMachines : public Machines {
 protected:
  void SetUp() override {
    Machines::SetUp();
    if (!machines_.problem().empty()) {
      GTEST_SKIP() << machines_.problem();
    }
  }
  std::string on_machine(int rank) const override { return machines_.on(rank); }
  std::string main_address() const override {
    return NetworkMachines::address(0);
  }

  NetworkMachines machines_{3};
};

TEST_F(NetworkedMachines, RunAsOneJob) {
  const std::string program = "sh -c 'echo $RANK of $WORLD_SIZE'";

  const Results results =
      run_all({line(0, 3, program), line(1, 3, program), line(2, 3, program)});

  std::string all;
  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    all += result.out;
  }
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_TRUE(contains(all, std::to_string(rank) + " of 6")) << all;
  }
}

TEST_F(NetworkedMachines, ListAMissingMachineAndTheOtherAddresses) {
  const Results results = run_all(
      {line(0, 3, "--rdzv_timeout 2 true"),
       line(2, 3, "--rdzv_timeout 2 true")});

  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_TRUE(contains(results[0].err, "10.77.0.3")) << results[0].err;
  EXPECT_TRUE(contains(results[0].err, "missing")) << results[0].err;
  EXPECT_EQ(results[1].exit_code, 1);
  EXPECT_TRUE(contains(results[1].err, "missing")) << results[1].err;
}

TEST_F(NetworkedMachines, NoticeALostConnection) {
  auto first = start(line(0, 2, "$WORKER hang " + marks()));
  auto second = start(line(1, 2, "$WORKER hang " + marks()));
  ASSERT_TRUE(wait_for_marks(4));

  machines_.set_link(1, false);
  const auto result = first.get();
  const auto cut = second.get();

  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "machine 1 (")) << result.err;
  EXPECT_TRUE(contains(result.err, "disconnected")) << result.err;
  EXPECT_LT(result.seconds, 30);
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_TRUE(contains(cut.err, "machine 0 (10.77.0.1")) << cut.err;
}

}  // namespace
}  // namespace accelerate::test
