// SPDX-License-Identifier: Apache-2.0
#include "state/forked_ranks.h"

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

constexpr std::chrono::seconds kGrace(5);

struct Child {
  pid_t pid = 0;
  int report = -1;  // Read end of a pipe: what the child threw.
};

void check_can_fork(const ForkedRun& options) {
  if (options.num_processes < 1) {
    throw ArgumentError(
        str_cat("num_processes is ", options.num_processes), "pass 1 or more");
  }
  if (options.timeout.count() <= 0) {
    throw ArgumentError(
        str_cat("timeout is ", options.timeout.count(), " ms"),
        "pass a positive time, or leave it out");
  }
  if (PartialState::is_initialized()) {
    throw StateError(
        "this process already has a PartialState, which its children cannot "
        "share",
        "make Accelerator and PartialState inside the function only");
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
            options.launcher,
            " before anything that starts threads: a large tensor operation "
            "(OpenMP), a backward, a data loader, a GPU"));
  }
}

// The launcher's variables for one child; this is the child's own environment.
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
  // This process may itself be a worker; its launcher's store and restarts
  // are not those of its children.
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
    text = "something that is not a std::exception was thrown";
  }
  // A pipe takes 64 KiB without a reader; nothing here is worth more.
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
    throw IoError(str_cat("cannot make a pipe: ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw IoError(
        str_cat("cannot start process ", rank, ": ", std::strerror(errno)),
        "see `ulimit -u`");
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

std::string describe_end(int status) {
  return WIFSIGNALED(status) ? str_cat(
                                   "killed by signal ",
                                   WTERMSIG(status),
                                   " (",
                                   ::sigabbrev_np(WTERMSIG(status)),
                                   ")")
                             : str_cat("exit code ", WEXITSTATUS(status));
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

  // Throws with the first failure.
  void wait(std::chrono::milliseconds timeout) {
    const auto deadline = steady_clock::now() + timeout;
    while (left() > 0) {
      const int ended = next_to_end();
      if (ended >= 0) {
        reap(ended);
      } else if (steady_clock::now() >= deadline) {
        throw DistributedError(
            str_cat(
                left(),
                " of ",
                children_.size(),
                " processes did not end within ",
                timeout.count(),
                " ms"),
            "raise `timeout`, or look for what they wait for");
      }
    }
  }

 private:
  std::size_t left() const {
    std::size_t count = 0;
    for (const Child& child : children_) {
      count += child.pid != 0 ? 1 : 0;
    }
    return count;
  }

  // A child's pipe reports its end; -1 when none ended within 100 ms.
  int next_to_end() const {
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
    const std::size_t others = left();
    stop();
    throw DistributedError(str_cat(
        "rank ",
        rank,
        " failed first (",
        describe_end(status),
        "), the "
        "other ",
        others,
        " were stopped",
        report.empty() ? "" : "\n  it threw: ",
        report));
  }

  void stop() {
    for (const Child& child : children_) {
      if (child.pid != 0) {
        ::kill(child.pid, SIGTERM);
      }
    }
    const auto deadline = steady_clock::now() + kGrace;
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
  // Stops those that run, whatever happens below.
  Children children;
  for (int rank = 0; rank < run.num_processes; ++rank) {
    children.add(start_child(function, rank, run, listener));
  }
  // The store has a thread, so it comes after the last fork; the children's
  // connections wait in the socket's queue until then.
  c10d::TCPStoreOptions store_options;
  store_options.port = bound_port(listener);
  store_options.isServer = true;
  store_options.waitWorkers = false;
  store_options.masterListenFd = listener;
  const c10d::TCPStore store("127.0.0.1", store_options);
  children.wait(run.timeout);
}

}  // namespace accelerate
