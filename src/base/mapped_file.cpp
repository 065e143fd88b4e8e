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

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK a pipe in place of a file would be waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    throw_errno("read", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    throw_errno("map", path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) {
    return;  // The system refuses to map nothing.
  }
  void* memory =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) {
    throw_errno("map", path, errno);
  }
  data_ = static_cast<std::byte*>(memory);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

}  // namespace accelerate
