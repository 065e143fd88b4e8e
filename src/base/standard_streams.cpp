// SPDX-License-Identifier: Apache-2.0
#include "base/standard_streams.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace accelerate {

void open_standard_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
      continue;
    }
    // Without O_CLOEXEC, so that the streams stay open in programs that this
    // process starts.
    const int opened = ::open("/dev/null", O_RDWR);
    if (opened >= 0 && opened != fd) {
      ::dup2(opened, fd);
      ::close(opened);
    }
  }
}

}  // namespace accelerate
