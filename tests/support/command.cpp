// SPDX-License-Identifier: Apache-2.0
#include "support/command.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace accelerate::test {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& string : strings) {
    result.push_back(string.data());
  }
  result.push_back(nullptr);
  return result;
}

void set_non_blocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Appends the available bytes. At the end of the stream, closes `fd` and sets
// it to -1.
void read_available(int& fd, std::string& text) {
  char buffer[65536];
  while (fd >= 0) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      text.append(buffer, static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EAGAIN) {
      ::close(fd);
      fd = -1;
    } else {
      return;
    }
  }
}

}  // namespace

CommandResult run_command(const CommandOptions& options) {
  int in[2];
  int out[2];
  int err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
      ::pipe2(err, O_CLOEXEC) != 0) {
    return {};
  }
  auto arguments = options.argv;
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) {
    variables.push_back(name + "=" + value);
  }
  const auto argv = pointers(arguments);
  const auto envp = pointers(variables);
  const auto start = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) {
      ::_exit(126);
    }
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  (void)!::write(in[1], options.input.data(), options.input.size());
  ::close(in[1]);
  set_non_blocking(out[0]);
  set_non_blocking(err[0]);

  CommandResult result;
  bool watching = static_cast<bool>(options.watch);
  while (out[0] >= 0 || err[0] >= 0) {
    pollfd entries[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    ::poll(entries, 2, 5);
    read_available(out[0], result.out);
    read_available(err[0], result.err);
    if (watching) {
      watching = !options.watch(pid, result.err);
    }
    if (Clock::now() - start > options.timeout) {
      result.timed_out = true;
      ::kill(-pid, SIGKILL);
      ::kill(pid, SIGKILL);
      break;
    }
  }
  for (int* fd : {&out[0], &err[0]}) {
    if (*fd >= 0) {
      ::close(*fd);
    }
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace accelerate::test
