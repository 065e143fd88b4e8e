// SPDX-License-Identifier: Apache-2.0
#include "support/run_processes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/socket.h"
#include "base/str_cat.h"
#include "config/environment.h"
#include "state/rendezvous_store.h"

namespace accelerate {
namespace {

using std::chrono::steady_clock;
using Variables = std::map<std::string, std::string>;

c10::intrusive_ptr<c10d::Store> serve_store(int listener) {
  c10d::TCPStoreOptions options;
  options.port = bound_port(listener);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

Variables variables_of(
    int rank, int count, int port, const ProcessOptions& options) {
  Variables variables = Environment::of_this_process().variables();
  const Variables launcher_variables = {
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(count)},
      {"LOCAL_WORLD_SIZE", std::to_string(count)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"TORCHELASTIC_USE_AGENT_STORE",
       options.store_in_test ? "True" : "False"},
      {"OMP_NUM_THREADS", "1"},
      // Processes with the backend `nccl` share a GPU.
      {"ACCELERATE_RANKS_PER_GPU", std::to_string(count)},
      {"NCCL_HOSTID", str_cat("test-", rank)},
      {"NCCL_SOCKET_IFNAME", "lo"},
  };
  for (const auto& [name, value] : launcher_variables) {
    variables[name] = value;
  }
  for (const auto& [name, value] : options.environment) {
    variables[name] = value;
  }
  std::erase_if(
      variables, [](const auto& entry) { return entry.second.empty(); });
  return variables;
}

// The pointers of an argv or envp; valid as long as `texts`.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::runtime_error(str_cat("pipe2: ", std::strerror(errno)));
  }
  return {ends[0], ends[1]};
}

// Between fork and exec only async-signal-safe calls are allowed: the parent
// has threads.
[[noreturn]] void exec_program(
    pid_t parent,
    const Pipe& input,
    const Pipe& output,
    const std::string& program,
    char* const* argv,
    char* const* envp) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_DFL);
  if (::getppid() != parent) {
    ::_exit(126);
  }
  ::dup2(input.read, STDIN_FILENO);
  ::dup2(output.write, STDOUT_FILENO);
  ::dup2(output.write, STDERR_FILENO);
  ::execve(program.c_str(), argv, envp);
  ::_exit(127);
}

}  // namespace

struct Processes::Child {
  pid_t pid = 0;     // 0 after it was reaped
  int process = -1;  // A pidfd, which becomes readable when the process exits.
  int input = -1;
  int output = -1;  // -1 after end of file
  ProcessResult result;
};

std::string describe(const ProcessResult& result) {
  return result.signal != 0
             ? str_cat(
                   "rank ",
                   result.rank,
                   ": killed by signal ",
                   result.signal,
                   " (",
                   ::sigabbrev_np(result.signal),
                   ")")
             : str_cat("rank ", result.rank, ": exit code ", result.exit_code);
}

Processes::Processes(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    ProcessOptions options)
    : options_(std::move(options)), begin_(steady_clock::now()) {
  ::signal(SIGPIPE, SIG_IGN);  // `send_line` reports a rank that has exited.
  const int listener = listen_on_loopback(0);
  port_ = bound_port(listener);
  if (options_.store_in_test) {
    store_ = serve_store(listener);
  } else {
    ::close(listener);
  }
  for (int rank = 0; rank < count; ++rank) {
    children_.push_back(std::make_unique<Child>());
    children_.back()->result.rank = rank;
  }
  start(program, args);
}

void Processes::start(
    const std::string& program, const std::vector<std::string>& args) {
  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), args.begin(), args.end());
  const std::vector<char*> argv = pointers(arguments);
  const pid_t parent = ::getpid();
  const int count = static_cast<int>(children_.size());
  for (const auto& child : children_) {
    std::vector<std::string> entries;
    for (const auto& [name, value] :
         variables_of(child->result.rank, count, port_, options_)) {
      entries.push_back(str_cat(name, "=", value));
    }
    const std::vector<char*> envp = pointers(entries);
    const Pipe input = make_pipe();
    const Pipe output = make_pipe();
    child->pid = ::fork();
    if (child->pid == 0) {
      exec_program(parent, input, output, program, argv.data(), envp.data());
    }
    ::close(input.read);
    ::close(output.write);
    child->input = input.write;
    child->output = output.read;
    if (child->pid < 0) {
      child->pid = 0;
      fail(str_cat("fork: ", std::strerror(errno)));
    }
    child->process = static_cast<int>(::syscall(SYS_pidfd_open, child->pid, 0));
  }
}

Processes::~Processes() {
  for (const auto& child : children_) {
    if (child->pid != 0) {
      ::kill(child->pid, SIGKILL);
      reap(*child, /*block=*/true);
    }
    for (const int fd : {child->process, child->input, child->output}) {
      if (fd >= 0) {
        ::close(fd);
      }
    }
  }
}

pid_t Processes::pid(int rank) const {
  return children_.at(static_cast<std::size_t>(rank))->pid;
}

const std::string& Processes::output(int rank) const {
  return children_.at(static_cast<std::size_t>(rank))->result.output;
}

c10d::Store& Processes::store() const {
  return *store_;
}

void Processes::fail(const std::string& reason) const {
  std::string text = reason;
  for (const auto& child : children_) {
    text += str_cat(
        "\n-- rank ",
        child->result.rank,
        child->pid != 0 ? " (running)" : " (exited)",
        "\n",
        child->result.output);
  }
  throw std::runtime_error(text);
}

// Polls all children once; sleeps until one of them prints or exits.
void Processes::poll_children() {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      begin_ + options_.timeout - steady_clock::now());
  if (left.count() <= 0) {
    fail(str_cat("not finished within ", options_.timeout.count(), " ms"));
  }
  std::vector<pollfd> fds;
  for (const auto& child : children_) {
    fds.push_back({child->output, POLLIN, 0});
    fds.push_back({child->pid != 0 ? child->process : -1, POLLIN, 0});
  }
  ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (fds[2 * i].revents != 0) {
      read_output(*children_[i]);
    }
    if (fds[2 * i + 1].revents != 0) {
      reap(*children_[i], /*block=*/false);
    }
  }
}

void Processes::read_output(Child& child) {
  char buffer[65536];
  const ssize_t n = ::read(child.output, buffer, sizeof buffer);
  if (n > 0) {
    child.result.output.append(buffer, static_cast<std::size_t>(n));
  } else {
    ::close(std::exchange(child.output, -1));
  }
}

void Processes::reap(Child& child, bool block) {
  int status = 0;
  if (::waitpid(child.pid, &status, block ? 0 : WNOHANG) != child.pid) {
    return;
  }
  child.pid = 0;
  child.result.seconds =
      std::chrono::duration<double>(steady_clock::now() - begin_).count();
  if (WIFSIGNALED(status)) {
    child.result.signal = WTERMSIG(status);
  } else {
    child.result.exit_code = WEXITSTATUS(status);
  }
}

void Processes::wait_for(int rank, const std::string& text) {
  const Child& child = *children_.at(static_cast<std::size_t>(rank));
  while (child.result.output.find(text) == std::string::npos) {
    if (child.output < 0 && child.pid == 0) {
      fail(str_cat(describe(child.result), " before it printed `", text, "`"));
    }
    poll_children();
  }
}

void Processes::send_line(int rank, const std::string& line) {
  const std::string text = line + "\n";
  const int fd = children_.at(static_cast<std::size_t>(rank))->input;
  if (::write(fd, text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    fail(str_cat(
        "rank ", rank, " does not read its stdin: ", std::strerror(errno)));
  }
}

void Processes::send_signal(int rank, int signal) const {
  const pid_t target = pid(rank);
  if (target == 0 || ::kill(target, signal) != 0) {
    fail(str_cat("rank ", rank, " cannot be signalled: it has exited"));
  }
}

std::vector<ProcessResult> Processes::wait() {
  const auto is_running = [](const auto& child) {
    return child->pid != 0 || child->output >= 0;
  };
  while (std::any_of(children_.begin(), children_.end(), is_running)) {
    poll_children();
  }
  std::vector<ProcessResult> results;
  for (const auto& child : children_) {
    results.push_back(child->result);
  }
  return results;
}

std::string test_program_path(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name)
      .string();
}

std::vector<ProcessResult> run_processes(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options) {
  return Processes(count, program, args, options).wait();
}

void run_processes_or_throw(
    int count,
    const std::string& program,
    const std::vector<std::string>& args,
    const ProcessOptions& options) {
  std::string failures;
  for (const ProcessResult& result :
       run_processes(count, program, args, options)) {
    if (result.exit_code != 0) {
      failures += str_cat(describe(result), "\n", result.output, "\n");
    }
  }
  if (!failures.empty()) {
    throw std::runtime_error(failures);
  }
}

}  // namespace accelerate
