// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/checksummed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>

#include "base/files.h"
#include "checkpoint_directory/local_disk.h"

namespace accelerate {
namespace {

// Small enough that a piece is still in the processor's cache when its checksum
// is computed.
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::uint64_t kFlush = std::uint64_t{16} << 20;
// A multiple of the block size of every disk.
constexpr std::size_t kBlock = 4096;

bool set_direct(const int fd, const bool direct) {
  return ::fcntl(fd, F_SETFL, direct ? O_DIRECT : 0) == 0;
}

}  // namespace

ChecksummedFile::ChecksummedFile(
    std::filesystem::path path, const WriteMode mode)
    : path_(std::move(path)) {
  fd_ = UniqueFd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd_) {
    throw_errno("create", path_, errno);
  }
  if (mode == WriteMode::direct && is_on_local_disk(path_)) {
    buffer_.reset(static_cast<char*>(std::aligned_alloc(kBlock, kPiece)));
    is_direct_ = buffer_ && set_direct(fd_.get(), true);
  }
}

void ChecksummedFile::write(std::string_view bytes) {
  while (buffer_ && !bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), kPiece - buffered_);
    std::memcpy(buffer_.get() + buffered_, bytes.data(), some);
    bytes.remove_prefix(some);
    buffered_ += some;
    if (buffered_ == kPiece) {
      buffered_ = 0;
      write_out({buffer_.get(), kPiece});
    }
  }
  write_out(bytes);
}

void ChecksummedFile::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    const ssize_t written = ::write(fd_.get(), piece.data(), piece.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EINVAL && is_direct_) {
        // The disk does not accept blocks of this size, or wrote only a part.
        disable_direct_io();
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

void ChecksummedFile::write_rest() {
  const std::string_view rest(buffer_.get(), std::exchange(buffered_, 0));
  const std::size_t whole = rest.size() / kBlock * kBlock;
  write_out(rest.substr(0, whole));
  disable_direct_io();
  write_out(rest.substr(whole));
}

void ChecksummedFile::disable_direct_io() {
  if (is_direct_) {
    is_direct_ = false;
    set_direct(fd_.get(), false);
  }
}

// Lets the disk start writing early; `finish` syncs everything.
void ChecksummedFile::flush_some() {
  if (bytes_ - flushed_ >= kFlush) {
    ::sync_file_range(
        fd_.get(),
        static_cast<off_t>(flushed_),
        static_cast<off_t>(bytes_ - flushed_),
        SYNC_FILE_RANGE_WRITE);
    flushed_ = bytes_;
  }
}

FileChecksum ChecksummedFile::finish() {
  if (buffer_) {
    write_rest();
  }
  if (::fsync(fd_.get()) != 0) {
    throw_errno("write", path_, errno);
  }
  // Some file systems report a full disk only here.
  if (::close(fd_.release()) != 0) {
    throw_errno("write", path_, errno);
  }
  return {bytes_, checksum_.text()};
}

FileChecksum write_checksummed(
    const std::filesystem::path& path, const std::string_view content) {
  ChecksummedFile file(path);
  file.write(content);
  return file.finish();
}

}  // namespace accelerate
