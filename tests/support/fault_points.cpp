// SPDX-License-Identifier: Apache-2.0
#include "support/fault_points.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace accelerate {
namespace {

enum class Mode { off, kill, fail };

std::atomic<Mode> mode = Mode::off;
std::atomic<int> calls = 0;
std::atomic<int> limit = 0;
std::atomic<int> failure = 0;
std::function<void()> hold;

// Counts a call; returns the error it must fail with, or 0.
int count_call(const bool needs_room) {
  const Mode now = mode.load();
  if (now == Mode::off) {
    return 0;
  }
  const int number = ++calls;
  if (now == Mode::kill && number == limit) {
    ::raise(SIGKILL);
  }
  return now == Mode::fail && number >= limit && needs_room ? failure.load()
                                                            : 0;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_file(const int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool changes(const int flags) {
  return (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
}

}  // namespace

void kill_at_call(const int at) {
  calls = 0;
  limit = at;
  mode = Mode::kill;
}

void fail_from_call(const int at, const int error) {
  calls = 0;
  limit = at;
  failure = error;
  mode = Mode::fail;
}

void hold_first_write(std::function<void()> wait) {
  hold = std::move(wait);
}

int disarm() {
  mode = Mode::off;
  return calls;
}

}  // namespace accelerate

// The calls themselves, under the C library's names.
#define ACCELERATE_FAIL_IF_TOLD(needs_room)                   \
  if (const int error = accelerate::count_call(needs_room)) { \
    errno = error;                                            \
    return -1;                                                \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const auto permissions = va_arg(list, mode_t);
  va_end(list);
  if (accelerate::changes(flags)) {
    ACCELERATE_FAIL_IF_TOLD(true)
  }
  return accelerate::real<int(const char*, int, mode_t)>("open")(
      path, flags, permissions);
}

ssize_t write(int fd, const void* data, std::size_t size) {
  if (accelerate::is_file(fd)) {
    if (const auto hold = std::exchange(accelerate::hold, nullptr)) {
      hold();
    }
    ACCELERATE_FAIL_IF_TOLD(true)
  }
  return accelerate::real<ssize_t(int, const void*, std::size_t)>("write")(
      fd, data, size);
}

int fsync(int fd) {
  ACCELERATE_FAIL_IF_TOLD(true)
  return accelerate::real<int(int)>("fsync")(fd);
}

char* mkdtemp(char* path) {
  if (const int error = accelerate::count_call(true)) {
    errno = error;
    return nullptr;
  }
  return accelerate::real<char*(char*)>("mkdtemp")(path);
}

int mkdir(const char* path, mode_t permissions) {
  ACCELERATE_FAIL_IF_TOLD(true)
  return accelerate::real<int(const char*, mode_t)>("mkdir")(path, permissions);
}

int rename(const char* from, const char* to) {
  ACCELERATE_FAIL_IF_TOLD(true)
  return accelerate::real<int(const char*, const char*)>("rename")(from, to);
}

int renameat2(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    unsigned flags) {
  ACCELERATE_FAIL_IF_TOLD(true)
  return accelerate::real<int(int, const char*, int, const char*, unsigned)>(
      "renameat2")(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  ACCELERATE_FAIL_IF_TOLD(false)
  return accelerate::real<int(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* path, int flags) {
  ACCELERATE_FAIL_IF_TOLD(false)
  return accelerate::real<int(int, const char*, int)>("unlinkat")(
      folder, path, flags);
}

int rmdir(const char* path) {
  ACCELERATE_FAIL_IF_TOLD(false)
  return accelerate::real<int(const char*)>("rmdir")(path);
}

int remove(const char* path) {
  ACCELERATE_FAIL_IF_TOLD(false)
  return accelerate::real<int(const char*)>("remove")(path);
}

}  // extern "C"
