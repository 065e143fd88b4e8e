// SPDX-License-Identifier: Apache-2.0
#include "launch/guardian.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

struct Message {
  char command = 0;  // '+' adds a group, '-' removes it, 'q' quits.
  pid_t group = 0;
};

// Messages are smaller than PIPE_BUF, so reads and writes are atomic.
bool receive(int pipe, Message& message) {
  while (true) {
    const ssize_t got = ::read(pipe, &message, sizeof(message));
    if (got == sizeof(message)) {
      return true;
    }
    if (got >= 0 || errno != EINTR) {
      return false;
    }
  }
}

void detach_from_terminal() {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null, fd);
  }
  ::prctl(PR_SET_NAME, "accelerate-grd");
}

bool is_marked(const std::filesystem::path& folder, const std::string& mark) {
  try {
    const std::string text =
        read_file(folder / "environ", std::size_t{4} << 20);
    const auto at = text.find(mark);
    return at != std::string::npos && (at == 0 || text[at - 1] == '\0');
  } catch (const Error&) {
    return false;  // The process has exited or belongs to another user.
  }
}

void clean_up(
    const std::set<pid_t>& groups,
    const std::string& launch_id,
    const std::string& folder) {
  for (const pid_t group : groups) {
    ::kill(-group, SIGKILL);
  }
  // A marked process may fork during a scan; a scan without a match ends the
  // loop.
  for (int round = 0; round < 50; ++round) {
    if (kill_marked_processes(launch_id) == 0) {
      break;
    }
    ::usleep(20000);
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
}

[[noreturn]] void watch(
    int pipe, const std::string& launch_id, const std::string& folder) {
  detach_from_terminal();
  // Closes inherited descriptors. Otherwise, the reader of an inherited pipe
  // would not see the end of the pipe while this process is running.
  pipe = ::dup2(pipe, 3);
  ::close_range(4, ~0U, 0);
  std::set<pid_t> groups;
  Message message;
  while (receive(pipe, message)) {
    if (message.command == 'q') {
      ::_exit(0);
    }
    if (message.command == '+') {
      groups.insert(message.group);
    } else {
      groups.erase(message.group);
    }
  }
  clean_up(groups, launch_id, folder);
  ::_exit(0);
}

}  // namespace

int kill_marked_processes(const std::string& launch_id) {
  const std::string mark =
      str_cat("ACCELERATE_LAUNCH_ID=", launch_id, std::string(1, '\0'));
  int killed = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (pid && *pid != ::getpid() && is_marked(entry.path(), mark)) {
      ::kill(static_cast<pid_t>(*pid), SIGKILL);
      ++killed;
    }
  }
  return killed;
}

Guardian::Guardian(const std::string& launch_id, const std::string& folder) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(str_cat("cannot create a pipe: ", errno_text(errno)));
  }
  UniqueFd read(ends[0]);
  pipe_.reset(ends[1]);
  // A signal for the whole job, such as SIGUSR1 from a batch system, must not
  // end the guardian. SIGKILL cannot be blocked.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_ = ::fork();
  if (pid_ != 0) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (pid_ < 0) {
    throw IoError(str_cat("cannot start a process: ", errno_text(errno)));
  }
  if (pid_ == 0) {
    pipe_.reset();
    watch(read.get(), launch_id, folder);
  }
}

Guardian::~Guardian() {
  send('q', 0);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guardian::add_group(pid_t group) {
  send('+', group);
}

void Guardian::remove_group(pid_t group) {
  send('-', group);
}

void Guardian::send(char command, pid_t group) {
  Message message{};
  message.command = command;
  message.group = group;
  (void)!::write(pipe_.get(), &message, sizeof(message));
}

}  // namespace accelerate
