// SPDX-License-Identifier: Apache-2.0
#include "jupyter/interpreter/screen.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <pty.h>

#include "jupyter/link.h"

namespace accelerate::jupyter {
namespace {

// A child of a worker that lives on may keep the terminal open: how often to
// look whether the launcher has ended, in milliseconds.
constexpr int kPatience = 200;

int wait_for(pid_t process, int options, int& status) {
  int result = -1;
  do {
    result = ::waitpid(process, &status, options);
  } while (result < 0 && errno == EINTR);
  return result;
}

enum class Read { some, nothing, end };

// Forwards one piece.
Read forward(int from) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(from, buffer.data(), buffer.size());
  if (n > 0) {
    const std::string text(buffer.data(), static_cast<std::size_t>(n));
    write_bytes(STDERR_FILENO, text);
    return Read::some;
  }
  // A terminal whose other end is closed answers EIO.
  return n < 0 && (errno == EINTR || errno == EAGAIN) ? Read::nothing
                                                      : Read::end;
}

}  // namespace

Screen::Screen() {
  termios mode{};
  ::cfmakeraw(&mode);
  const winsize size = {24, kScreenColumns, 0, 0};
  if (::openpty(&ours_, &theirs_, nullptr, &mode, &size) == 0) {
    ::fcntl(ours_, F_SETFD, FD_CLOEXEC);
    ::fcntl(theirs_, F_SETFD, FD_CLOEXEC);
    ::fcntl(ours_, F_SETFL, O_NONBLOCK);
  }
}

Screen::~Screen() {
  for (const int fd : {ours_, theirs_}) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

int Screen::end() const {
  return theirs_ >= 0 ? theirs_ : STDERR_FILENO;
}

int Screen::watch(pid_t process) {
  int status = 0;
  if (theirs_ < 0) {
    wait_for(process, 0, status);
    return status;
  }
  ::close(theirs_);
  theirs_ = -1;
  for (;;) {
    pollfd item = {ours_, POLLIN, 0};
    const int ready = ::poll(&item, 1, kPatience);
    if (ready > 0 && forward(ours_) == Read::end) {
      wait_for(process, 0, status);
      return status;
    }
    if (ready == 0 && wait_for(process, WNOHANG, status) != 0) {
      return status;
    }
  }
}

}  // namespace accelerate::jupyter
