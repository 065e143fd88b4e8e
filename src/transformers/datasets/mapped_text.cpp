// SPDX-License-Identifier: Apache-2.0
#include "transformers/datasets/mapped_text.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/unique_fd.h"

namespace transformers::datasets {

using accelerate::throw_errno;

MappedText::MappedText(const std::filesystem::path& path) {
  const accelerate::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    throw_errno("read", path, errno);
  }
  map(fd.get(), path);
}

MappedText::MappedText(int fd, const std::filesystem::path& path) {
  map(fd, path);
}

MappedText::MappedText(MappedText&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {
}

MappedText::~MappedText() {
  if (data_ != nullptr) {
    ::munmap(const_cast<char*>(data_), size_);
  }
}

void MappedText::map(int fd, const std::filesystem::path& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) {
    throw_errno("read", path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    throw_errno("read", path, EISDIR);
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) {
    return;  // There is no mapping of nothing.
  }
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) {
    throw_errno("map", path, errno);
  }
  data_ = static_cast<const char*>(mapped);
}

}  // namespace transformers::datasets
