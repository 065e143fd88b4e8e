// SPDX-License-Identifier: Apache-2.0
// `accelerate launch` with workers that crash, hang, fork and print a lot.
#include <chrono>
#include <csignal>
#include <fstream>
#include <future>
#include <set>
#include <sstream>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;

// Returns the child process of the launcher that outlives the launcher.
std::optional<pid_t> guardian_of(pid_t launcher) {
  const std::string number = std::to_string(launcher);
  std::ifstream children("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child = 0; children >> child;) {
    std::ifstream file("/proc/" + std::to_string(child) + "/comm");
    std::string name;
    if (std::getline(file, name) && name == "accelerate-grd") {
      return child;
    }
  }
  return std::nullopt;
}

class Launch : public CliTest {
 protected:
  std::string marks() const { return home_ + "/mark"; }
  bool is_marked(const std::string& name) const {
    return fs::exists(marks() + name);
  }
  int launch_folders() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(home_)) {
      const std::string name = entry.path().filename().string();
      count += name.starts_with("accelerate-") ? 1 : 0;
    }
    return count;
  }
  pid_t marked_pid(const std::string& name) const {
    pid_t pid = 0;
    std::ifstream(marks() + name) >> pid;
    return pid;
  }
  bool are_marked(int count) const {
    for (int i = 0; i < count; ++i) {
      // The file is created before its content is written.
      if (marked_pid(std::to_string(i)) == 0) {
        return false;
      }
    }
    return true;
  }
};

// The state in /proc, for example 'R'; 0 if the process does not exist.
char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  return end == std::string::npos ? '\0' : text[end + 2];
}

// Does not use `kill` with signal 0, which also succeeds for a zombie.
bool is_alive(pid_t pid) {
  return state_of(pid) != '\0' && state_of(pid) != 'Z';
}

// Whether a signal is pending in the process.
bool is_pending(pid_t pid, int signal) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("ShdPnd:")) {
      const auto mask = std::strtoull(line.c_str() + 7, nullptr, 16);
      return (mask >> (signal - 1) & 1U) != 0;
    }
  }
  return false;
}

bool wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) {
      return true;
    }
    ::usleep(5000);
  }
  return false;
}

int count_lines(const std::string& text, const std::string& with = "") {
  std::istringstream stream(text);
  std::string line;
  int count = 0;
  while (std::getline(stream, line)) {
    count += line.find(with) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST_F(Launch, CopiesTheBytesOfOneProcessUnchanged) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
  }

  const auto result = run("accelerate launch -q --cpu $WORKER binary");

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, all);
  EXPECT_EQ(result.err, "");
}

TEST_F(Launch, NeverSplitsLinesOfManyRanks) {
  const auto result =
      run("accelerate launch --cpu --num_processes 8 $WORKER lines 2000");

  EXPECT_EQ(result.exit_code, 0);
  std::istringstream stream(result.out);
  std::string line;
  std::vector<int> counts(8);
  int with_prefix = 0;
  while (std::getline(stream, line)) {
    const bool prefix = line[0] == '[';
    with_prefix += prefix ? 1 : 0;
    const std::string text = prefix ? line.substr(4) : line;
    ASSERT_GE(text.size(), 2U) << line;
    const int rank = text[0] - '0';
    ASSERT_TRUE(rank >= 0 && rank < 8) << line;
    EXPECT_EQ(
        text,
        std::to_string(rank) + ":" +
            std::string(70, static_cast<char>('a' + rank)));
    EXPECT_TRUE(!prefix || line[1] - '0' == rank) << line;
    ++counts[static_cast<std::size_t>(rank)];
  }
  EXPECT_EQ(counts, std::vector<int>(8, 2000));
  EXPECT_GE(with_prefix, 7 * 2000);
}

TEST_F(Launch, CopiesOneHundredMegabytes) {
  auto options = shell(
      "accelerate launch -q --cpu --num_processes 2 $WORKER megabytes 50 | wc "
      "-l");
  options.timeout = std::chrono::seconds(120);

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "102400\n");
}

TEST_F(Launch, PassesInputToTheFirstWorker) {
  auto options = shell("accelerate launch --cpu --num_processes 2 $WORKER cat");
  options.input = "hello\n";

  EXPECT_EQ(run_command(options).out, "hello\n");
}

TEST_F(Launch, RunsSixtyFourWorkers) {
  const auto result =
      run("accelerate launch --cpu --num_processes 64 $WORKER print");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out, "of 64"), 64);
}

// Rank 0 exits before the last of many workers has started.
TEST_F(Launch, AllowsAWorkerToExitBeforeTheOthersStart) {
  const auto success =
      run("accelerate launch --cpu --num_processes 32 sh -c '[ $RANK = 0 ] || "
          "sleep 0.2'");
  const auto failure =
      run("FAILS=0 accelerate launch --cpu --num_processes 32 $WORKER exit 7");

  EXPECT_EQ(success.exit_code, 0) << success.err;
  EXPECT_EQ(failure.exit_code, 7) << failure.err;
  EXPECT_NE(failure.err.find("error: rank 0 failed first"), std::string::npos)
      << failure.err;
  EXPECT_LT(failure.seconds, 8);
}

TEST_F(Launch, KillsAWorkerThatIgnoresSigterm) {
  const auto result = run(
      "FAILS=1 accelerate launch --cpu --num_processes 2 --stop_timeout 0.3 "
      "$WORKER stubborn " +
      marks());

  EXPECT_EQ(result.exit_code, 5);
  EXPECT_LT(result.seconds, 5);
  EXPECT_FALSE(is_alive(marked_pid("0")));
}

TEST_F(Launch, StopsProcessesThatWorkersForked) {
  const auto result =
      run("accelerate launch --cpu --num_processes 2 --stop_timeout 1 $WORKER "
          "fork " +
          marks());

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(result.seconds, 5);
  for (const char* rank : {"0", "1"}) {
    EXPECT_TRUE(wait_until([&] { return !is_alive(marked_pid(rank)); }));
  }
}

// Slurm's `scancel --signal USR1` signals every process of a step.
TEST_F(Launch, KeepsItsGuardianOnOtherSignals) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER fork_hang " +
      marks());
  options.watch = [&](pid_t pid, const std::string&) {
    const auto guardian = guardian_of(pid);
    if (!are_marked(2) || !guardian) {
      return false;
    }
    for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGALRM, SIGHUP}) {
      ::kill(*guardian, signal);
    }
    ::kill(pid, SIGKILL);
    return true;
  };

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 137);
  for (const char* name : {"0", "1", "child0", "child1"}) {
    EXPECT_TRUE(wait_until([&] { return !is_alive(marked_pid(name)); }))
        << name;
  }
}

TEST_F(Launch, LeavesNoWorkerWhenKilled) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER fork_hang " +
      marks());
  options.watch = [&](pid_t pid, const std::string&) {
    if (!are_marked(2)) {
      return false;
    }
    ::kill(pid, SIGKILL);
    return true;
  };

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 137);
  // The workers, and their children in new sessions.
  for (const char* name : {"0", "1", "child0", "child1"}) {
    EXPECT_TRUE(wait_until([&] { return !is_alive(marked_pid(name)); }))
        << name;
  }
  EXPECT_TRUE(wait_until([&] {
    for (const auto& entry : fs::directory_iterator(home_)) {
      if (entry.path().filename().string().starts_with("accelerate-")) {
        return false;
      }
    }
    return true;
  })) << "its folder was not removed";
}

// If the guardian is killed as well, the folder of the launch remains.
TEST_F(Launch, RemovesTheFolderOfAnEarlierLaunchThatWasKilled) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER hang " + marks());
  options.watch = [&](pid_t pid, const std::string&) {
    if (!are_marked(2)) {
      return false;
    }
    const auto guardian = guardian_of(pid);
    if (!guardian) {
      ADD_FAILURE() << "the launcher has no guardian";
      return true;
    }
    ::kill(*guardian, SIGKILL);
    EXPECT_TRUE(wait_until([&] { return !is_alive(*guardian); }));
    ::kill(pid, SIGKILL);
    return true;
  };
  run_command(options);
  ASSERT_EQ(launch_folders(), 1);

  EXPECT_EQ(run("accelerate launch --cpu true").exit_code, 0);

  EXPECT_EQ(launch_folders(), 0);
}

TEST_F(Launch, KeepsTheFolderOfARunningLaunch) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER hang " + marks());
  options.watch = [&](pid_t pid, const std::string&) {
    if (!are_marked(2)) {
      return false;
    }
    EXPECT_EQ(run("accelerate launch --cpu true").exit_code, 0);
    EXPECT_EQ(launch_folders(), 1);
    ::kill(pid, SIGTERM);
    return true;
  };

  EXPECT_EQ(run_command(options).exit_code, 143);
}

// Otherwise, a socket or a pipe of the launcher would become its stdin, stdout
// or stderr.
TEST_F(Launch, OpensClosedStandardStreams) {
  auto options = shell(
      "accelerate launch --cpu --num_processes 2 $WORKER hang " + marks() +
      " <&- >&- 2>&- & echo $! > $HOME/pid; wait $!");
  std::set<std::string> targets;
  options.watch = [&](pid_t, const std::string&) {
    if (!are_marked(2)) {
      return false;
    }
    pid_t pid = 0;
    std::ifstream(home_ + "/pid") >> pid;
    for (const char* fd : {"0", "1", "2"}) {
      targets.insert(
          fs::read_symlink("/proc/" + std::to_string(pid) + "/fd/" + fd));
    }
    ::kill(pid, SIGTERM);
    return true;
  };

  EXPECT_EQ(run_command(options).exit_code, 143);

  EXPECT_EQ(targets, std::set<std::string>{"/dev/null"});
}

TEST_F(Launch, RunsWithOneClosedStandardStream) {
  for (const std::string closed : {"<&-", ">&-", "2>&-"}) {
    SCOPED_TRACE(closed);
    const auto result = run(
        "accelerate launch --cpu --num_processes 2 $WORKER print " + closed);

    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count_lines(result.out, "of 2"), closed == ">&-" ? 0 : 2);
  }
}

TEST_F(Launch, FailsWhenOutputIsLost) {
  const auto both =
      run("accelerate launch --cpu --num_processes 2 $WORKER print >/dev/full");
  EXPECT_EQ(both.exit_code, 1) << both.err;
  EXPECT_NE(
      both.err.find("error: the workers succeeded, but part of their output "
                    "was lost: cannot write to stdout: No space left"),
      std::string::npos)
      << both.err;

  const auto single = run("accelerate launch --cpu $WORKER print >/dev/full");
  EXPECT_EQ(single.exit_code, 1) << single.err;

  const auto data = run("accelerate env >/dev/full");
  EXPECT_EQ(data.exit_code, 1);
  EXPECT_NE(
      data.err.find("error: cannot write to stdout: No space left on device"),
      std::string::npos)
      << data.err;
}

// A full disk must not stop the training.
TEST_F(Launch, RunsOnWhenOutputIsLost) {
  const auto result =
      run("accelerate launch --cpu sh -c 'for i in 1 2 3; do seq 10000; done; "
          "echo done > $HOME/done' >/dev/full");

  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(fs::exists(home_ + "/done"));
}

TEST_F(Launch, NamesARankThatHadExitedWithCode0) {
  const auto result =
      run("accelerate launch --cpu --num_processes 2 sh -c '"
          "if [ $RANK = 1 ]; then echo $$ > $HOME/p; exit 0; fi; "
          "for i in $(seq 2000); do "
          "grep -qs ^State:.Z /proc/$(cat $HOME/p)/status && exit 3; "
          "sleep 0.01; done'");

  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(
      result.err.find("hint: find out why rank 1 (after "), std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find(
          "exited with code 0: rank 0 may still have been waiting for it"),
      std::string::npos)
      << result.err;
}

TEST_F(Launch, ForwardsAnInterruptToEveryWorker) {
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove(marks() + "0");
    fs::remove(marks() + "1");
    auto options = shell(
        "exec accelerate launch --cpu --num_processes 2 $WORKER hang " +
        marks());
    options.watch = [&](pid_t pid, const std::string&) {
      if (!are_marked(2)) {
        return false;
      }
      ::kill(pid, signal);
      return true;
    };

    const auto result = run_command(options);

    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_LT(result.seconds, 5);
  }
}

TEST_F(Launch, KillsWorkersOnCtrlCAfterAnInterrupt) {
  auto options = shell(
      "FAILS=9 exec accelerate launch --cpu --num_processes 2 $WORKER "
      "stubborn " +
      marks());
  int sent = 0;
  options.watch = [&](pid_t pid, const std::string&) {
    // The Linux kernel merges a second signal with a pending first one.
    if (are_marked(2) && !is_pending(pid, SIGTERM)) {
      ::kill(pid, sent == 0 ? SIGTERM : SIGINT);
      ++sent;
    }
    return sent == 2;
  };

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 137);
  EXPECT_LT(result.seconds, 5);
}

// A batch system sends SIGTERM more than once while the workers are saving.
TEST_F(Launch, CountsRepeatedSigtermsOnce) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 --grace_period 30 sh -c "
      "'trap \"sleep 1; exit 75\" TERM; echo $$ > " +
      marks() + "$RANK; while :; do sleep 0.05; done'");
  int sent = 0;
  options.watch = [&](pid_t pid, const std::string&) {
    if (are_marked(2) && !is_pending(pid, SIGTERM)) {
      ::kill(pid, SIGTERM);
      ++sent;
    }
    return sent == 3;
  };

  const auto result = run_command(options);

  EXPECT_EQ(result.exit_code, 75) << result.err;
}

TEST_F(Launch, PrintsTheStatusOnSigquit) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER hang " + marks());
  int step = 0;
  options.watch = [&](pid_t pid, const std::string& err) {
    if (step == 0 && are_marked(2)) {
      ::kill(pid, SIGQUIT);
      step = 1;
    }
    if (step == 1 && err.find("rank 1, pid") != std::string::npos) {
      ::kill(pid, SIGTERM);
      step = 2;
    }
    return step == 2;
  };

  const auto result = run_command(options);

  EXPECT_NE(
      result.err.find("2 of 2 workers running on this machine"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(count_lines(result.err, ": running"), 2);
}

TEST_F(Launch, ShowsAStoppedWorkerOnSigquit) {
  auto options = shell(
      "exec accelerate launch --cpu --num_processes 2 $WORKER hang " + marks());
  int step = 0;
  options.watch = [&](pid_t pid, const std::string& err) {
    if (step == 0 && are_marked(2)) {
      ::kill(marked_pid("1"), SIGSTOP);
      step = 1;
    }
    if (step == 1 && state_of(marked_pid("1")) == 'T') {
      ::kill(pid, SIGQUIT);
      step = 2;
    }
    // A second Ctrl-C kills the workers: the stopped one cannot exit. The
    // Linux kernel merges a second signal with a pending first one.
    if (step >= 2 && err.find("rank 1, pid") != std::string::npos &&
        !is_pending(pid, SIGINT)) {
      ::kill(pid, SIGINT);
      ++step;
    }
    return step == 4;
  };

  const auto result = run_command(options);

  EXPECT_LT(result.seconds, 20);

  EXPECT_NE(
      result.err.find("1 of 2 workers running on this machine"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(count_lines(result.err, ": stopped; run `kill -CONT "), 1)
      << result.err;
}

TEST_F(Launch, RestartsAllWorkers) {
  const auto result =
      run("FAILS=1 accelerate launch --cpu --num_processes 2 --max_restarts 1 "
          "$WORKER twice");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_lines(result.out, "restarted"), 2);
  EXPECT_EQ(
      result.err,
      "warning: rank 1 exited with code 4; restarting all 2 workers (restart 1 "
      "of 1)\n");
}

TEST_F(Launch, WritesEachRanksStreamsToLogDir) {
  const auto result =
      run("accelerate launch --cpu --num_processes 2 --log_dir " + home_ +
          "/logs sh -c 'echo out; echo err >&2' && cd " + home_ +
          "/logs/* && head -n 5 *");

  EXPECT_NE(
      result.out.find(
          "==> rank_0.stderr.log <==\nerr\n\n==> rank_0.stdout.log <==\nout\n\n"
          "==> rank_1.stderr.log <==\nerr\n\n==> rank_1.stdout.log <==\nout\n"),
      std::string::npos)
      << result.out;
}

TEST_F(Launch, HonorsTheUmaskForLogsConfigurationsAndExports) {
  const std::string checkpoint =
      "$SRC/../formats/checkpoints/1.0/checkpoints/checkpoint_2 ";
  const auto result =
      run("cd $HOME; umask 077; accelerate config default >/dev/null 2>&1; "
          "accelerate launch -q --cpu --log_dir logs true; "
          "accelerate checkpoint export --config $SRC/data/bert " +
          checkpoint +
          "exported >/dev/null; find . ! -perm 0700 ! -perm 0600; "
          "find . -name config.json -o -name rank_0.stdout.log");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string found = result.out;
  EXPECT_EQ(count_lines(found), 2) << found;
  EXPECT_EQ(count_lines(found, "exported/config.json"), 1) << found;
  EXPECT_EQ(count_lines(found, "rank_0.stdout.log"), 1) << found;
}

TEST_F(Launch, ConcurrentLaunchesUseDifferentPorts) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::future<CommandResult>> launches;
    for (int i = 0; i < 2; ++i) {
      launches.push_back(std::async(std::launch::async, [this] {
        return run("accelerate launch --cpu --num_processes 2 $WORKER port");
      }));
    }
    for (auto& launch : launches) {
      const auto result = launch.get();
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
  }
}

TEST_F(Launch, RunsAPythonScriptWithTorchrunsVariables) {
  std::ofstream(home_ + "/script.py")
      << "import os, socket, sys\n"
         "rank = int(os.environ['RANK']); world = "
         "int(os.environ['WORLD_SIZE'])\n"
         "address = (os.environ['MASTER_ADDR'], "
         "int(os.environ['MASTER_PORT']))\n"
         "if rank == 0:\n"
         "    server = socket.create_server(address)\n"
         "    others = [server.accept()[0] for _ in range(world - 1)]\n"
         "    print(sorted(int(p.recv(16)) for p in others), sys.argv[1:])\n"
         "else:\n"
         "    import time\n"
         "    for _ in range(200):\n"
         "        try:\n"
         "            socket.create_connection(address).sendall(b'%d' % rank)\n"
         "            break\n"
         "        except OSError:\n"
         "            time.sleep(0.02)\n";
  auto options = shell(
      "accelerate launch --cpu --num_processes 3 " + home_ +
      "/script.py --lr 0.1");
  const char* path = std::getenv("PATH");
  options.environment["PATH"] = std::string(ACCELERATE_BIN) + ":" + path;

  const auto result = run_command(options);

  EXPECT_EQ(result.out, "[1, 2] ['--lr', '0.1']\n") << result.err;
}

TEST_F(Launch, ReportsTheOomKiller) {
  const auto result =
      run("FAILS=1 $SRC/memory_cgroup.sh accelerate launch --cpu "
          "--num_processes 2 $WORKER eat 400");
  if (result.exit_code == 77) {
    GTEST_SKIP() << "cannot create a memory cgroup";
  }

  EXPECT_EQ(result.exit_code, 137) << result.err;
  EXPECT_NE(
      result.err.find("killed by SIGKILL from the kernel's OOM killer"),
      std::string::npos)
      << result.err;
  EXPECT_NE(
      result.err.find("hint: use a smaller batch, fewer processes, or a "
                      "machine with more memory"),
      std::string::npos)
      << result.err;
}

TEST_F(Launch, RejectsUnsupportedOptionsOfHuggingFaceAccelerate) {
  std::ifstream list(
      std::string(ACCELERATE_CLI_TESTS) + "/data/python_flags.txt");
  std::string name;
  int count = 0;
  while (list >> name) {
    const auto result = run("accelerate launch --" + name + " x true");
    EXPECT_EQ(result.exit_code, 2) << name;
    EXPECT_TRUE(result.err.starts_with("error: --" + name + " is for "))
        << result.err;
    EXPECT_EQ(count_lines(result.err), 1) << result.err;
    ++count;
  }
  EXPECT_GT(count, 90);
}

TEST_F(Launch, StartsTheProcessesOfAHostfileWithMpirun) {
  std::ofstream(home_ + "/hostfile") << "localhost slots=2\n";
  auto options = shell(
      "command -v mpirun >/dev/null || exit 77; OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 accelerate launch --cpu "
      "--num_processes 2 --mixed_precision bf16 --mpirun_hostfile "
      "$HOME/hostfile "
      "sh -c 'echo $OMPI_COMM_WORLD_RANK $ACCELERATE_MIXED_PRECISION'");
  const auto result = run_command(options);
  if (result.exit_code == 77) {
    GTEST_SKIP() << "mpirun is not installed";
  }

  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto explained =
      run("accelerate explain --cpu --num_processes 2 --mpirun_hostfile "
          "$HOME/hostfile true");
  EXPECT_NE(
      explained.out.find("mpirun --hostfile " + home_ + "/hostfile -np 2 "),
      std::string::npos)
      << explained.out;
  EXPECT_EQ(explained.out.find("-x ACCELERATE_PROGRESS"), std::string::npos);
  EXPECT_NE(result.out.find("0 bf16"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("1 bf16"), std::string::npos) << result.out;
}

TEST_F(Launch, ConcurrentMpirunLaunchesUseDifferentPorts) {
  const std::string launch =
      "accelerate launch --cpu --num_processes 2 --mpirun_hostfile "
      "hostfile.txt "
      "true";
  const auto result =
      run("PATH=$SRC/data/mpi:$PATH; " + launch + " > $HOME/one & first=$!; " +
          launch +
          " > $HOME/two; wait $first; grep -oh 'MASTER_PORT=[0-9]*' "
          "$HOME/one $HOME/two");

  std::istringstream stream(result.out);
  std::string first;
  std::string second;
  stream >> first >> second;
  EXPECT_TRUE(first.starts_with("MASTER_PORT=")) << result.out << result.err;
  EXPECT_TRUE(second.starts_with("MASTER_PORT=")) << result.out << result.err;
  EXPECT_NE(first, "MASTER_PORT=29500");
  EXPECT_NE(first, second);
}

TEST_F(Launch, ExitsWhenItsOutputIsClosed) {
  const auto result =
      run("accelerate launch -q --cpu $WORKER megabytes 2000 | head -c 10");

  EXPECT_EQ(result.out, "xxxxxxxxxx");
  EXPECT_LT(result.seconds, 10);
}

TEST_F(Launch, BindsEachWorkerToItsOwnCores) {
  const std::string cores =
      "sh -c 'grep Cpus_allowed_list /proc/self/status > $HOME/cores$RANK'; ";
  const auto result =
      run("accelerate launch --cpu --num_processes 2 --enable_cpu_affinity " +
          cores + "cmp -s $HOME/cores0 $HOME/cores1; echo $?; nproc");

  // With one core, both workers share it.
  EXPECT_TRUE(result.out.starts_with("1\n") || result.out == "0\n1\n")
      << result.out;
}

TEST_F(Launch, SetsTheNumberOfThreads) {
  EXPECT_EQ(
      run("OMP_NUM_THREADS=3 accelerate launch --cpu $WORKER env "
          "OMP_NUM_THREADS")
          .out,
      "3\n");
  EXPECT_EQ(
      run("accelerate launch --cpu --num_processes 1000 "
          "--num_cpu_threads_per_process 1 true")
          .exit_code,
      0);
}

}  // namespace
}  // namespace accelerate::test
