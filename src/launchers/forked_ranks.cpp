// SPDX-License-Identifier: Apache-2.0
#include "launchers/forked_ranks.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "base/socket.h"
#include "base/str_cat.h"
#include "state/rendezvous_store.h"

namespace accelerate {
namespace {

using std::chrono::steady_clock;

// How long children may take to exit after SIGTERM before they are killed.
constexpr std::chrono::seconds kGracePeriod(5);

struct Child {
  pid_t pid = 0;
  int report = -1;  // Read end of a pipe with the child's error.
};

void check_can_fork(const ForkedRun& run) {
  if (run.num_processes < 1) {
    throw ArgumentError(
        str_cat("num_processes is ", run.num_processes), "pass 1 or more");
  }
  if (run.timeout.count() <= 0) {
    throw ArgumentError(
        str_cat("timeout is ", run.timeout.count(), " ms"),
        "pass a positive `timeout`, or leave it out");
  }
  if (PartialState::is_initialized()) {
    throw StateError(
        "this process already has a PartialState, which its children cannot "
        "share",
        "create Accelerator and PartialState only in the launched function");
  }
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks));
  if (threads > 1) {
    throw StateError(
        str_cat(
            "this process has ",
            threads,
            " threads, so it cannot be forked safely"),
        str_cat(
            "call ",
            run.launcher,
            " before anything that starts threads, such as a large tensor "
            "operation (OpenMP), a backward pass, a data loader or CUDA"));
  }
}

// Sets the launcher's environment variables; runs in the child.
void set_environment(int rank, const ForkedRun& run, int port) {
  const int size = run.num_processes;
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(size));
  set("LOCAL_WORLD_SIZE", std::to_string(size));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  set("GROUP_RANK", "0");
  set("GROUP_WORLD_SIZE", "1");
  // The parent process may itself be a worker. Its children must not use the
  // store or the restart count of the parent's launcher.
  ::unsetenv("ACCELERATE_STORE_RUN");
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  set("FORK_LAUNCHED", "1");
  set("ACCELERATE_USE_CPU", run.cpu ? "yes" : "no");
  set("ACCELERATE_MIXED_PRECISION", run.mixed_precision);
  set("GLOO_SOCKET_IFNAME", "lo");
  set("NCCL_SOCKET_IFNAME", "lo");
}

int run_child(const std::function<void()>& function, int report) {
  std::string text;
  int code = 1;
  try {
    function();
    PartialState::reset();
    return 0;
  } catch (const Error& error) {
    text = error.hint().empty()
               ? error.what()
               : str_cat(error.what(), "\nhint: ", error.hint());
    code = error.exit_code();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that does not derive from std::exception";
  }
  // A pipe buffers 64 KiB before the write blocks; longer texts are cut off.
  text.resize(std::min<std::size_t>(text.size(), 60'000));
  static_cast<void>(!::write(report, text.data(), text.size()));
  return code;
}

Child start_child(
    const std::function<void()>& function,
    int rank,
    const ForkedRun& run,
    int listener) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    throw IoError(str_cat("cannot create a pipe: ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw IoError(
        str_cat("cannot start process ", rank, ": ", std::strerror(errno)),
        "check the process limit with `ulimit -u`");
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    const int port = bound_port(listener);
    ::close(listener);
    set_environment(rank, run, port);
    const int code = run_child(function, pipe[1]);
    std::cout << std::flush;
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(pipe[1]);
  return {pid, pipe[0]};
}

std::string read_report(const Child& child) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(child.report, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

std::string describe_exit(int status) {
  return WIFSIGNALED(status) ? str_cat(
                                   "killed by signal ",
                                   WTERMSIG(status),
                                   " (",
                                   ::sigabbrev_np(WTERMSIG(status)),
                                   ")")
                             : str_cat("exit code ", WEXITSTATUS(status));
}

std::string describe_stopped(std::size_t others) {
  if (others == 0) {
    return "";
  }
  return others == 1 ? "; the other rank was stopped"
                     : str_cat("; the other ", others, " ranks were stopped");
}

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(Child child) { children_.push_back(child); }

  ~Children() {
    stop();
    for (const Child& child : children_) {
      ::close(child.report);
    }
  }

  // Waits for all children. Throws the first failure.
  void wait(std::chrono::milliseconds timeout) {
    const auto deadline = steady_clock::now() + timeout;
    while (num_running() > 0) {
      const int exited = poll_for_exit();
      if (exited >= 0) {
        reap(exited);
      } else if (steady_clock::now() >= deadline) {
        throw DistributedError(
            str_cat(
                num_running(),
                " of ",
                children_.size(),
                " processes did not exit within ",
                timeout.count(),
                " ms"),
            "raise `timeout`, or find out what the processes are waiting for");
      }
    }
  }

 private:
  std::size_t num_running() const {
    std::size_t count = 0;
    for (const Child& child : children_) {
      count += child.pid != 0 ? 1 : 0;
    }
    return count;
  }

  // Returns a child whose pipe closed or contains an error, or -1 after 100 ms.
  int poll_for_exit() const {
    std::vector<pollfd> fds;
    for (const Child& child : children_) {
      fds.push_back({child.pid != 0 ? child.report : -1, POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 100);
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  void reap(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    const std::string report = read_report(child);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    child.pid = 0;
    if (status == 0) {
      return;
    }
    const std::size_t others = num_running();
    stop();
    throw DistributedError(str_cat(
        "rank ",
        rank,
        " failed first (",
        describe_exit(status),
        ")",
        describe_stopped(others),
        report.empty() ? report : str_cat("\n  rank ", rank, " threw: "),
        report));
  }

  void stop() {
    for (const Child& child : children_) {
      if (child.pid != 0) {
        ::kill(child.pid, SIGTERM);
      }
    }
    const auto deadline = steady_clock::now() + kGracePeriod;
    for (Child& child : children_) {
      while (child.pid != 0 && ::waitpid(child.pid, nullptr, WNOHANG) == 0) {
        if (steady_clock::now() >= deadline) {
          ::kill(child.pid, SIGKILL);
          ::waitpid(child.pid, nullptr, 0);
          break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      child.pid = 0;
    }
  }

  std::vector<Child> children_;
};

}  // namespace

void run_forked(const std::function<void()>& function, const ForkedRun& run) {
  check_can_fork(run);
  const int listener = listen_on_loopback(0);
  std::cout << std::flush;
  std::fflush(nullptr);
  // The destructor stops running children if the code below throws.
  Children children;
  for (int rank = 0; rank < run.num_processes; ++rank) {
    children.add(start_child(function, rank, run, listener));
  }
  // The store starts a thread, so it must be created after the last fork. Until
  // then, connections from the children wait in the queue of the socket.
  c10d::TCPStoreOptions store_options;
  store_options.port = bound_port(listener);
  store_options.isServer = true;
  store_options.waitWorkers = false;
  store_options.masterListenFd = listener;
  const c10d::TCPStore store("127.0.0.1", store_options);
  children.wait(run.timeout);
}

}  // namespace accelerate
