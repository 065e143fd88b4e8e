// SPDX-License-Identifier: Apache-2.0
#include "folders/summed_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "base/files.h"

namespace accelerate {
namespace {

// Small enough that the checksum still finds a piece in the cache.
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::uint64_t kFlush = std::uint64_t{16} << 20;

}  // namespace

SummedFile::SummedFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = UniqueFd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd_) {
    throw_errno("create", path_, errno);
  }
}

void SummedFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    const ssize_t written = ::write(fd_.get(), piece.data(), piece.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno("write", path_, errno);
    }
    const auto done = static_cast<std::size_t>(written);
    checksum_.add(piece.substr(0, done));
    bytes_ += done;
    bytes.remove_prefix(done);
    flush_some();
  }
}

// The disk begins while the rest still comes; `finish` makes sure of it all.
void SummedFile::flush_some() {
  if (bytes_ - flushed_ >= kFlush) {
    ::sync_file_range(
        fd_.get(),
        static_cast<off_t>(flushed_),
        static_cast<off_t>(bytes_ - flushed_),
        SYNC_FILE_RANGE_WRITE);
    flushed_ = bytes_;
  }
}

FileSum SummedFile::finish() {
  if (::fsync(fd_.get()) != 0) {
    throw_errno("write", path_, errno);
  }
  // Some file systems report a full disk only here.
  if (::close(fd_.release()) != 0) {
    throw_errno("write", path_, errno);
  }
  return {bytes_, checksum_.text()};
}

FileSum write_summed(
    const std::filesystem::path& path, const std::string_view content) {
  SummedFile file(path);
  file.write(content);
  return file.finish();
}

}  // namespace accelerate
