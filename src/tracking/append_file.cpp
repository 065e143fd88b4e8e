// SPDX-License-Identifier: Apache-2.0
#include "tracking/append_file.h"

#include <algorithm>
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
  entry_ends_.push_back(buffer_.size());
  if (buffer_.size() > kMaxBuffer) {
    flush();
  }
}

void AppendFile::keep_complete_entries(std::size_t written) {
  const auto after = std::ranges::upper_bound(entry_ends_, written);
  const std::size_t kept = after == entry_ends_.begin() ? 0 : *(after - 1);
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_ + kept)) == 0) {
    size_ += kept;
  }  // Otherwise, the next write begins at the old offset.
}

void AppendFile::flush() {
  std::size_t written = 0;
  int error = 0;
  while (written < buffer_.size() && error == 0) {
    const ssize_t count = ::pwrite(
        fd_.get(),
        buffer_.data() + written,
        buffer_.size() - written,
        static_cast<off_t>(size_ + written));
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      error = count == 0 ? ENOSPC : errno;
    }
  }
  if (error == 0) {
    size_ += written;
  } else {
    keep_complete_entries(written);
  }
  buffer_.clear();
  entry_ends_.clear();
  if (error != 0) {
    throw_errno("write", path_, error);
  }
}

void AppendFile::truncate(std::uint64_t size) {
  buffer_.clear();
  entry_ends_.clear();
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
