// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/pseudo_terminal.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <pty.h>

#include "jupyter/interpreter_protocol.h"

namespace accelerate::jupyter {
namespace {

// How often to check whether the launcher has exited. A surviving child of a
// worker may keep the terminal open, so the end of the output is not enough.
constexpr int kPollMilliseconds = 200;

int wait_for(pid_t process, int options, int& status) {
  int result = -1;
  do {
    result = ::waitpid(process, &status, options);
  } while (result < 0 && errno == EINTR);
  return result;
}

enum class ReadResult { data, nothing, end };

// Forwards one chunk to stderr.
ReadResult forward(int from) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(from, buffer.data(), buffer.size());
  if (n > 0) {
    const std::string text(buffer.data(), static_cast<std::size_t>(n));
    write_bytes(STDERR_FILENO, text);
    return ReadResult::data;
  }
  // A terminal whose other end is closed returns EIO.
  return n < 0 && (errno == EINTR || errno == EAGAIN) ? ReadResult::nothing
                                                      : ReadResult::end;
}

}  // namespace

PseudoTerminal::PseudoTerminal() {
  termios mode{};
  ::cfmakeraw(&mode);
  const winsize size = {24, kTerminalColumns, 0, 0};
  if (::openpty(&parent_fd_, &child_fd_, nullptr, &mode, &size) == 0) {
    ::fcntl(parent_fd_, F_SETFD, FD_CLOEXEC);
    ::fcntl(child_fd_, F_SETFD, FD_CLOEXEC);
    ::fcntl(parent_fd_, F_SETFL, O_NONBLOCK);
  }
}

PseudoTerminal::~PseudoTerminal() {
  for (const int fd : {parent_fd_, child_fd_}) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

int PseudoTerminal::child_fd() const {
  return child_fd_ >= 0 ? child_fd_ : STDERR_FILENO;
}

int PseudoTerminal::forward_until_exit(pid_t process) {
  int status = 0;
  if (child_fd_ < 0) {
    wait_for(process, 0, status);
    return status;
  }
  ::close(child_fd_);
  child_fd_ = -1;
  for (;;) {
    pollfd item = {parent_fd_, POLLIN, 0};
    const int ready = ::poll(&item, 1, kPollMilliseconds);
    if (ready > 0 && forward(parent_fd_) == ReadResult::end) {
      wait_for(process, 0, status);
      return status;
    }
    if (ready == 0 && wait_for(process, WNOHANG, status) != 0) {
      return status;
    }
  }
}

}  // namespace accelerate::jupyter
