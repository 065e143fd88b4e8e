// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_memory.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/available_memory.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

constexpr std::size_t kHeadPage = 4096;

using Nonce = std::array<unsigned char, 16>;

Nonce make_nonce() {
  Nonce nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) !=
      static_cast<ssize_t>(nonce.size())) {
    throw InternalError(str_cat("getrandom failed: ", std::strerror(errno)));
  }
  return nonce;
}

std::string to_hex(const Nonce& nonce) {
  std::ostringstream out;
  for (const unsigned char byte : nonce) {
    out << std::hex << std::setw(2) << std::setfill('0')
        << static_cast<unsigned>(byte);
  }
  return std::move(out).str();
}

struct flock presence_lock(int rank, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

[[noreturn]] void throw_unreachable(
    const std::string& address, const std::string& reason) {
  throw IoError(
      str_cat("shared memory `", address, "` cannot be opened: ", reason));
}

}  // namespace

SharedMemory::SharedMemory(int fd, std::size_t bytes) : fd_(fd), bytes_(bytes) {
  void* base = ::mmap(
      nullptr, kHeadPage + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    ::close(fd);
    throw OutOfMemoryError(
        str_cat(
            "cannot map ",
            bytes,
            " bytes of shared memory: ",
            std::strerror(error)),
        "raise the address space limit (`ulimit -v`), or use fewer or "
        "smaller buffers");
  }
  base_ = static_cast<std::byte*>(base);
  data_ = base_ + kHeadPage;
}

SharedMemory::~SharedMemory() {
  ::munmap(base_, kHeadPage + bytes_);
  ::close(fd_);
}

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) {
  // The system allows a memory file that is larger than the available memory,
  // but later kills processes when its pages are used.
  const std::uint64_t available = available_bytes();
  if (bytes > available) {
    throw OutOfMemoryError(
        str_cat(
            "cannot allocate ",
            bytes,
            " bytes of shared memory: only ",
            available,
            " bytes are available on this machine"),
        "free some memory on this machine, or use `ACCELERATE_BACKEND=gloo`");
  }
  const int fd = ::memfd_create("accelerate", MFD_CLOEXEC);
  // Reserves the pages now, so that a lack of memory is an error here instead
  // of a SIGBUS in the middle of a collective.
  const bool reserved =
      fd >= 0 && ::fchmod(fd, 0600) == 0 &&
      ::fallocate(fd, 0, 0, static_cast<off_t>(kHeadPage + bytes)) == 0;
  if (!reserved) {
    const int error = errno;
    if (fd >= 0) {
      ::close(fd);
    }
    throw OutOfMemoryError(
        str_cat(
            "cannot allocate ",
            bytes,
            " bytes of shared memory: ",
            std::strerror(error)),
        "free some memory on this machine, or use `ACCELERATE_BACKEND=gloo`");
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory(fd, bytes));
  const Nonce nonce = make_nonce();
  std::memcpy(memory->base_, nonce.data(), nonce.size());
  memory->address_ = str_cat(::getpid(), ":", fd, ":", to_hex(nonce));
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::open(const std::string& address) {
  std::istringstream parts(address);
  std::int64_t pid = 0;
  int creators_fd = 0;
  char colon = 0;
  std::string nonce;
  parts >> pid >> colon >> creators_fd >> colon >> nonce;

  const std::string path = str_cat("/proc/", pid, "/fd/", creators_fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    throw_unreachable(address, str_cat(path, ": ", std::strerror(errno)));
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size <= static_cast<off_t>(kHeadPage)) {
    ::close(fd);
    throw_unreachable(address, str_cat(path, " was not created by accelerate"));
  }
  std::shared_ptr<SharedMemory> memory(new SharedMemory(
      fd, static_cast<std::size_t>(status.st_size) - kHeadPage));
  Nonce found{};
  std::memcpy(found.data(), memory->base_, found.size());
  if (to_hex(found) != nonce) {
    throw_unreachable(
        address,
        str_cat(path, " belongs to another machine or to an earlier run"));
  }
  memory->address_ = address;
  return memory;
}

void SharedMemory::hold_presence(int rank) {
  struct flock lock = presence_lock(rank, F_WRLCK);
  if (::fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    throw InternalError(str_cat(
        "cannot lock the slot of rank ",
        rank,
        " in shared memory ",
        address_,
        ": ",
        std::strerror(errno),
        "; another process may be running with the same rank"));
  }
}

std::vector<int> SharedMemory::absent_ranks(int own_rank, int size) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != own_rank && !is_present(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

bool SharedMemory::is_present(int rank) const {
  struct flock lock = presence_lock(rank, F_WRLCK);
  return ::fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace accelerate
