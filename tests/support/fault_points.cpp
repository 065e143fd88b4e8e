// SPDX-License-Identifier: Apache-2.0
#include "support/fault_points.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace accelerate {
namespace {

enum class Mode { off, kill, fail, fail_once };

std::atomic<Mode> mode = Mode::off;
std::atomic<int> calls = 0;
std::atomic<int> limit = 0;
std::atomic<int> failure = 0;
std::function<void()> before_first_write;
std::atomic<bool> no_rename_flags = false;
std::atomic<bool> splits_writes = false;
std::atomic<int> delay_ms = 0;
std::string protected_part;
std::atomic<bool> recording = false;
std::mutex record_mutex;
std::vector<std::string> record;
std::string failed;

// The last part of a path; "tmp" for temporary folders, whose names are random.
std::string last_part(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.find(".tmp-") != name.npos ? "tmp" : name;
}

std::string last_part(const int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, 4096> path{};
  return ::readlink(link.c_str(), path.data(), path.size() - 1) > 0
             ? last_part(std::string(path.data()))
             : "";
}

/// Records a call. `where` is a path or an open file.
template <typename Where>
void note(const char* call, const Where where) {
  if (recording) {
    const std::lock_guard lock(record_mutex);
    record.push_back(std::string(call) + " " + last_part(where));
  }
}

// Counts a call; returns the error it must fail with, or 0.
template <typename Where>
int count_call(const char* call, const Where where, const bool needs_room) {
  const Mode now = mode.load();
  if (now == Mode::off) {
    return 0;
  }
  const int number = ++calls;
  if (now == Mode::kill && number == limit) {
    ::raise(SIGKILL);
  }
  if (now == Mode::fail_once && number == limit) {
    const std::lock_guard lock(record_mutex);
    failed = std::string(call) + " " + last_part(where);
    return failure;
  }
  return now == Mode::fail && number >= limit && needs_room ? failure.load()
                                                            : 0;
}

// Simulates a slow disk.
void delay() {
  if (delay_ms > 0) {
    ::usleep(static_cast<useconds_t>(delay_ms) * 1000);
  }
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool is_protected(const char* path) {
  return !protected_part.empty() &&
         std::string(path).find(protected_part) != std::string::npos;
}

bool is_file(const int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool is_written(const int fd) {
  return (::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
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

void fail_at_call(const int at, const int error) {
  calls = 0;
  limit = at;
  failure = error;
  mode = Mode::fail_once;
}

std::string failed_call() {
  const std::lock_guard lock(record_mutex);
  return failed;
}

void block_first_write(std::function<void()> wait) {
  before_first_write = std::move(wait);
}

void slow_down(const std::chrono::milliseconds each) {
  delay_ms = static_cast<int>(each.count());
}

void refuse_rename_flags() {
  no_rename_flags = true;
}

void protect_path(std::string part) {
  protected_part = std::move(part);
}

void split_writes() {
  splits_writes = true;
}

void record_calls() {
  const std::lock_guard lock(record_mutex);
  record.clear();
  recording = true;
}

std::vector<std::string> recorded_calls() {
  recording = false;
  const std::lock_guard lock(record_mutex);
  return record;
}

int disarm() {
  mode = Mode::off;
  return calls;
}

}  // namespace accelerate

// The calls, with the names of the C library.
#define ACCELERATE_FAIL_IF_ARMED(call, where, needs_room)                  \
  if (const int error = accelerate::count_call(call, where, needs_room)) { \
    errno = error;                                                         \
    return -1;                                                             \
  }

#define ACCELERATE_FAIL_IF_PROTECTED(path) \
  if (accelerate::is_protected(path)) {    \
    errno = EPERM;                         \
    return -1;                             \
  }

// These functions are visible, so that they also intercept calls from the C++
// standard library, which removes and renames files.
#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const auto permissions = va_arg(list, mode_t);
  va_end(list);
  if (accelerate::changes(flags)) {
    ACCELERATE_FAIL_IF_ARMED("open", path, true)
  }
  return accelerate::real<int(const char*, int, mode_t)>("open")(
      path, flags, permissions);
}

ssize_t write(int fd, const void* data, std::size_t size) {
  if (accelerate::is_file(fd)) {
    if (const auto wait =
            std::exchange(accelerate::before_first_write, nullptr)) {
      wait();
    }
    accelerate::delay();
    accelerate::note("write", fd);
    if ((::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
      accelerate::note("direct", fd);
    }
    if (accelerate::splits_writes && size > 256) {
      size /= 2;  // The caller writes the rest in another call.
    }
    ACCELERATE_FAIL_IF_ARMED("write", fd, true)
  }
  return accelerate::real<ssize_t(int, const void*, std::size_t)>("write")(
      fd, data, size);
}

// Always closes the file. Some file systems report an exceeded quota only here.
int close(int fd) {
  const bool written = accelerate::is_written(fd);
  const int error = accelerate::is_file(fd)
                        ? accelerate::count_call(
                              written ? "close" : "close read", fd, written)
                        : 0;
  const int result = accelerate::real<int(int)>("close")(fd);
  if (error != 0) {
    errno = error;
    return -1;
  }
  return result;
}

int fsync(int fd) {
  accelerate::delay();
  accelerate::note("fsync", fd);
  ACCELERATE_FAIL_IF_ARMED("fsync", fd, true)
  return accelerate::real<int(int)>("fsync")(fd);
}

int mkdir(const char* path, mode_t permissions) {
  ACCELERATE_FAIL_IF_ARMED("mkdir", path, true)
  return accelerate::real<int(const char*, mode_t)>("mkdir")(path, permissions);
}

int rename(const char* from, const char* to) {
  accelerate::note("rename", to);
  ACCELERATE_FAIL_IF_ARMED("rename", to, true)
  return accelerate::real<int(const char*, const char*)>("rename")(from, to);
}

int renameat2(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    unsigned flags) {
  accelerate::note("rename", to);
  if (flags != 0 && accelerate::no_rename_flags) {
    errno = EINVAL;
    return -1;
  }
  ACCELERATE_FAIL_IF_ARMED("rename", to, true)
  return accelerate::real<int(int, const char*, int, const char*, unsigned)>(
      "renameat2")(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) {
  accelerate::note("unlink", path);
  ACCELERATE_FAIL_IF_PROTECTED(path)
  ACCELERATE_FAIL_IF_ARMED("unlink", path, false)
  return accelerate::real<int(const char*)>("unlink")(path);
}

int unlinkat(int folder, const char* path, int flags) {
  accelerate::note("unlink", path);
  ACCELERATE_FAIL_IF_PROTECTED(path)
  ACCELERATE_FAIL_IF_ARMED("unlink", path, false)
  return accelerate::real<int(int, const char*, int)>("unlinkat")(
      folder, path, flags);
}

int rmdir(const char* path) {
  accelerate::note("unlink", path);
  ACCELERATE_FAIL_IF_PROTECTED(path)
  ACCELERATE_FAIL_IF_ARMED("unlink", path, false)
  return accelerate::real<int(const char*)>("rmdir")(path);
}

int remove(const char* path) {
  accelerate::note("unlink", path);
  ACCELERATE_FAIL_IF_PROTECTED(path)
  ACCELERATE_FAIL_IF_ARMED("unlink", path, false)
  return accelerate::real<int(const char*)>("remove")(path);
}

}  // extern "C"
#pragma GCC visibility pop
