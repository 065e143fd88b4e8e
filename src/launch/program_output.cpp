// SPDX-License-Identifier: Apache-2.0
#include "launch/program_output.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = 65536;

// Starts the child in its own Unix process group, so that its children can be
// killed with it.
pid_t start(std::vector<std::string>& argv, int output) {
  std::vector<char*> pointers;
  for (std::string& argument : argv) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(
      &actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error = ::posix_spawnp(
      &pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw ConfigError(str_cat("cannot run ", argv[0], ": ", errno_text(error)));
  }
  return pid;
}

// Returns false if the deadline has passed.
bool read_until_closed(int fd, Clock::time_point deadline, std::string& text) {
  char buffer[4096];
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(
        &entry, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return true;
    }
    const std::size_t room = kMaxOutput - std::min(kMaxOutput, text.size());
    text.append(buffer, std::min(static_cast<std::size_t>(got), room));
  }
}

}  // namespace

std::string program_output(
    std::vector<std::string> argv, std::chrono::milliseconds timeout) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw_errno("open", "a pipe", errno);
  }
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t pid = start(argv, writer.get());
  writer = UniqueFd();
  std::string text;
  const bool in_time =
      read_until_closed(reader.get(), Clock::now() + timeout, text);
  // A program that has closed both streams prints nothing more.
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    throw ConfigError(
        str_cat(
            "`",
            argv[0],
            argv.size() > 1 ? " " + argv[1] : "",
            "` did not finish within ",
            timeout.count() / 1000,
            " s"),
        "run this command yourself to see what it is waiting for");
  }
  return text;
}

}  // namespace accelerate
