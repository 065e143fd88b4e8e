// SPDX-License-Identifier: Apache-2.0
#include "launch/worker_process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <pty.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(str_cat("cannot create a pipe: ", errno_text(errno)));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Creates a pseudo-terminal for the worker, with the size of the launcher's
// terminal and in raw mode. Programs that check for a terminal then show their
// progress bars.
Pipe make_terminal(int like) {
  int controller = -1;
  int terminal = -1;
  winsize size{};
  const bool sized = ::ioctl(like, TIOCGWINSZ, &size) == 0;
  termios mode{};
  ::cfmakeraw(&mode);
  if (::openpty(
          &controller, &terminal, nullptr, &mode, sized ? &size : nullptr) !=
      0) {
    return make_pipe();
  }
  ::fcntl(controller, F_SETFD, FD_CLOEXEC);
  ::fcntl(terminal, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(controller), UniqueFd(terminal)};
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) {
    result.push_back(string.data());
  }
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, prepared before the fork. Because the
// launcher has threads, only async-signal-safe calls are allowed between fork
// and exec.
struct Child {
  std::vector<char*> argv;
  std::vector<char*> environment;
  int in = -1;
  int out = -1;
  int err = -1;
  int report = -1;
  pid_t parent = -1;
  bool own_group = true;
  bool limit_cpus = false;
  cpu_set_t cpus;
};

void reset_signals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (const int signal :
       {SIGINT,
        SIGTERM,
        SIGHUP,
        SIGQUIT,
        SIGPIPE,
        SIGUSR1,
        SIGUSR2,
        SIGTSTP,
        SIGCHLD,
        SIGCONT,
        SIGWINCH,
        SIGTTOU,
        SIGTTIN}) {
    ::sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(const Child& child) {
  // Set the parent-death signal first, then check the parent: the launcher may
  // already have died.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) {
    ::_exit(1);
  }
  if (child.own_group) {
    ::setpgid(0, 0);
  }
  if (child.limit_cpus) {
    ::sched_setaffinity(0, sizeof(child.cpus), &child.cpus);
  }
  ::dup2(child.in, STDIN_FILENO);
  ::dup2(child.out, STDOUT_FILENO);
  ::dup2(child.err, STDERR_FILENO);
  reset_signals();
  if (!child.own_group) {
    // Ctrl-\ asks the launcher for its status and must not kill a worker in the
    // same foreground process group.
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGQUIT, &ignore, nullptr);
  }
  ::execve(child.argv[0], child.argv.data(), child.environment.data());
  const int error = errno;
  (void)!::write(child.report, &error, sizeof(error));
  ::_exit(127);
}

// Returns the errno of a failed exec; 0 if the program runs.
int exec_error(int report) {
  int error = 0;
  while (true) {
    const ssize_t got = ::read(report, &error, sizeof(error));
    if (got == sizeof(error)) {
      return error;
    }
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return 0;
    }
  }
}

UniqueFd open_input(bool inherit) {
  return inherit ? UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3))
                 : UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

std::vector<std::string> environment_entries(const WorkerCommand& command) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : command.environment) {
    entries.push_back(str_cat(name, "=", value));
  }
  return entries;
}

[[noreturn]] void throw_exec(const std::string& program, int error) {
  const char* hint = error == EACCES ? "make it executable with `chmod +x`"
                     : error == ENOEXEC
                         ? "start the script with a line like `#!/bin/sh`"
                         : "";
  throw IoError(str_cat("cannot run ", program, ": ", errno_text(error)), hint);
}

}  // namespace

std::optional<WorkerProcess::ExitStatus> WorkerProcess::poll() const {
  siginfo_t info{};
  const int got = ::waitid(
      P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  if (got != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0}
                                    : ExitStatus{0, info.si_status};
}

bool WorkerProcess::is_stopped() const {
  constexpr std::size_t kMaxBytes = 4096;
  try {
    const std::string text =
        read_file(str_cat("/proc/", pid, "/stat"), kMaxBytes);
    // The state follows the name, which may contain parentheses.
    const auto end = text.rfind(") ");
    const char state = end == text.npos ? '?' : text.at(end + 2);
    return state == 'T' || state == 't';
  } catch (const std::exception&) {
    return false;  // It has just exited.
  }
}

void WorkerProcess::send(int signal) const {
  if (has_own_group) {
    ::kill(-pid, signal);
  } else {
    ::kill(pid, signal);
  }
}

void WorkerProcess::reap() const {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

WorkerProcess start_worker(
    const WorkerCommand& command, const WorkerStreams& streams) {
  Pipe out =
      streams.out_is_terminal ? make_terminal(STDOUT_FILENO) : make_pipe();
  Pipe err =
      streams.err_is_terminal ? make_terminal(STDERR_FILENO) : make_pipe();
  Pipe report = make_pipe();
  const UniqueFd in = open_input(streams.reads_our_input);
  std::vector<std::string> argv = command.argv;
  std::vector<std::string> environment = environment_entries(command);

  Child child;
  child.argv = pointers(argv);
  child.environment = pointers(environment);
  child.in = in.get();
  child.out = out.write.get();
  child.err = err.write.get();
  child.report = report.write.get();
  child.parent = ::getpid();
  child.own_group = !streams.shares_group;
  child.limit_cpus = !command.cpus.empty();
  CPU_ZERO(&child.cpus);
  for (const int cpu : command.cpus) {
    CPU_SET(cpu, &child.cpus);
  }

  const pid_t pid = ::fork();
  if (pid == 0) {
    run_child(child);
  }
  if (pid < 0) {
    throw IoError(str_cat("cannot start a process: ", errno_text(errno)));
  }
  // Both processes set the process group, so that it exists before either uses
  // it.
  if (child.own_group) {
    ::setpgid(pid, pid);
  }
  WorkerProcess worker;
  worker.rank = command.rank;
  worker.pid = pid;
  worker.has_own_group = child.own_group;
  worker.out = std::move(out.read);
  worker.err = std::move(err.read);
  worker.handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  report.write.reset();
  if (const int error = exec_error(report.read.get())) {
    worker.reap();
    throw_exec(command.argv[0], error);
  }
  return worker;
}

}  // namespace accelerate
