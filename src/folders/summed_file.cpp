// SPDX-License-Identifier: Apache-2.0
#include "folders/summed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>

#include "base/files.h"
#include "folders/local_disk.h"

namespace accelerate {
namespace {

// Small enough that the checksum still finds a piece in the cache.
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::uint64_t kFlush = std::uint64_t{16} << 20;
// A multiple of every disk's own.
constexpr std::size_t kBlock = 4096;

bool set_direct(const int fd, const bool direct) {
  return ::fcntl(fd, F_SETFL, direct ? O_DIRECT : 0) == 0;
}

}  // namespace

SummedFile::SummedFile(std::filesystem::path path, const WriteVia via)
    : path_(std::move(path)) {
  fd_ = UniqueFd(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd_) {
    throw_errno("create", path_, errno);
  }
  if (via == WriteVia::disk && is_on_local_disk(path_)) {
    blocks_.reset(static_cast<char*>(std::aligned_alloc(kBlock, kPiece)));
    past_cache_ = blocks_ && set_direct(fd_.get(), true);
  }
}

void SummedFile::write(std::string_view bytes) {
  while (blocks_ && !bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), kPiece - waiting_);
    std::memcpy(blocks_.get() + waiting_, bytes.data(), some);
    bytes.remove_prefix(some);
    waiting_ += some;
    if (waiting_ == kPiece) {
      waiting_ = 0;
      write_out({blocks_.get(), kPiece});
    }
  }
  write_out(bytes);
}

void SummedFile::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    const ssize_t written = ::write(fd_.get(), piece.data(), piece.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EINVAL && past_cache_) {
        // Blocks that this disk does not take, or the end of a write that was
        // cut short.
        go_through_cache();
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

void SummedFile::write_rest() {
  const std::string_view rest(blocks_.get(), std::exchange(waiting_, 0));
  const std::size_t whole = rest.size() / kBlock * kBlock;
  write_out(rest.substr(0, whole));
  go_through_cache();
  write_out(rest.substr(whole));
}

void SummedFile::go_through_cache() {
  if (past_cache_) {
    past_cache_ = false;
    set_direct(fd_.get(), false);
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
  if (blocks_) {
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

FileSum write_summed(
    const std::filesystem::path& path, const std::string_view content) {
  SummedFile file(path);
  file.write(content);
  return file.finish();
}

}  // namespace accelerate
