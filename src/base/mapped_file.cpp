// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace accelerate {

MappedFile::MappedFile(const std::filesystem::path& path, Mode mode) {
  // Without O_NONBLOCK, `open` would block if the path is a named pipe.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    throw_errno("read", path, errno);
  }
  map(fd.get(), path, mode);
}

MappedFile::MappedFile(int fd, const std::filesystem::path& path, Mode mode) {
  map(fd, path, mode);
}

void MappedFile::map(int fd, const std::filesystem::path& path, Mode mode) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    throw_errno("read", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    throw_errno("read", path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) {
    return;  // `mmap` fails for an empty file.
  }
  const bool writable = mode == Mode::writable_copy;
  void* memory = ::mmap(
      nullptr,
      size_,
      writable ? PROT_READ | PROT_WRITE : PROT_READ,
      writable ? MAP_PRIVATE : MAP_SHARED,
      fd,
      0);
  if (memory == MAP_FAILED) {
    throw_errno("map", path, errno);
  }
  data_ = static_cast<std::byte*>(memory);
  name_ = NamedMapping(memory, size_, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      name_(std::move(other.name_)) {
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    name_.end();
    ::munmap(data_, size_);
  }
}

}  // namespace accelerate
