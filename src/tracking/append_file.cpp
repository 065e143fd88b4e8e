// SPDX-License-Identifier: Apache-2.0
#include "tracking/append_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

namespace accelerate {
namespace {

constexpr std::size_t kMaxBuffer = std::size_t{1} << 20;

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  // If this fails, `open` reports why.
  std::error_code ignored;
  std::filesystem::create_directories(path_.parent_path(), ignored);
  fd_.reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0666));
  if (!fd_) {
    throw_errno("write", path_, errno);
  }
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) {
    throw_errno("write", path_, errno);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void AppendFile::append(std::string_view entry) {
  buffer_ += entry;
  if (buffer_.size() > kMaxBuffer) {
    flush();
  }
}

void AppendFile::flush() {
  const std::string bytes = std::exchange(buffer_, {});
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::pwrite(
        fd_.get(),
        bytes.data() + written,
        bytes.size() - written,
        static_cast<off_t>(size_ + written));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      const int error = count < 0 ? errno : ENOSPC;
      if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) {
        // The next write begins at the same offset.
      }
      throw_errno("write", path_, error);
    }
    written += static_cast<std::size_t>(count);
  }
  size_ += bytes.size();
}

void AppendFile::truncate(std::uint64_t size) {
  buffer_.clear();
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
    throw_errno("shorten", path_, errno);
  }
  size_ = size;
}

void remove_from(AppendFile& file, std::uint64_t size) {
  file.truncate(size);
  const std::filesystem::path path = file.path();
  file = {};
  if (size == 0) {
    std::filesystem::remove(path);
  }
}

}  // namespace accelerate
