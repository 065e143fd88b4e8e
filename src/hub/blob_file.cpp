// SPDX-License-Identifier: Apache-2.0
#include "hub/blob_file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;
using accelerate::str_cat;
using accelerate::throw_errno;

bool is_hex(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

/// The ETag of a large file is its SHA-256.
bool is_sha256(const std::string& etag) {
  return etag.size() == 64 && is_hex(etag);
}

/// The ETag of a small file, which is stored in git itself, is the SHA-1 of its
/// git blob.
bool is_git_blob(const std::string& etag) {
  return etag.size() == 40 && is_hex(etag);
}

/// Whether the open file belongs to this user and has only one hard link.
/// Otherwise, another user could have chosen the file that a write changes.
bool is_own_file(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == ::geteuid() && info.st_nlink == 1;
}

accelerate::UniqueFd open_partial(
    const std::filesystem::path& path, int more_flags) {
  // Without O_NONBLOCK, `open` could block if the file is a named pipe.
  return accelerate::UniqueFd(::open(
      path.c_str(),
      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | more_flags,
      0666));
}

accelerate::UniqueFd open_own_file(const std::filesystem::path& path) {
  accelerate::UniqueFd fd = open_partial(path, 0);
  if (fd && is_own_file(fd.get())) {
    return fd;
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw accelerate::IoError(
        str_cat(
            path.string(),
            " is not a regular file that belongs only to this user, and it "
            "cannot be removed: ",
            accelerate::errno_text(errno)),
        "remove it, or set HF_HUB_CACHE to a folder of your own");
  }
  fd = open_partial(path, O_EXCL);
  if (!fd) {
    throw_errno("write", path, errno);
  }
  return fd;
}

}  // namespace

BlobFile::BlobFile(ExpectedBlob expected)
    : expected_(std::move(expected)),
      path_(expected_.blob.string() + ".incomplete") {
  std::error_code error;
  std::filesystem::create_directories(expected_.blob.parent_path(), error);
  if (error) {
    throw_errno("create", expected_.blob.parent_path(), error.value());
  }
  fd_ = open_own_file(path_);
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) {
    throw_errno("read", path_, errno);
  }
  size_ = info.st_size;
  // The download cannot resume if the expected size is unknown or exceeded.
  if (!expected_.size || size_ > *expected_.size) {
    clear();
  }
}

void BlobFile::clear() {
  if (::ftruncate(fd_.get(), 0) != 0) {
    throw_errno("write", path_, errno);
  }
  size_ = 0;
}

bool BlobFile::begin_part(int status, const Response& response) {
  if (status == 200) {
    const bool was_empty = size_ == 0;
    clear();
    return was_empty;
  }
  const std::string range = response.header("content-range").value_or("");
  if (!range.starts_with(str_cat("bytes ", size_, "-"))) {
    throw FormatError(
        str_cat(
            response.url,
            ": requested bytes ",
            size_,
            " and later, but the response has the Content-Range `",
            range,
            "`"),
        str_cat("remove ", path_.string(), " and try again"));
  }
  return true;
}

void BlobFile::append(std::string_view bytes) {
  if (size_ + static_cast<std::int64_t>(bytes.size()) >
      expected_.size.value_or(expected_.max_unannounced)) {
    clear();
    throw FormatError(
        expected_.size ? str_cat(
                             expected_.url,
                             " sent more than the announced ",
                             *expected_.size,
                             " bytes")
                       : str_cat(
                             expected_.url,
                             " sent more than ",
                             expected_.max_unannounced,
                             " bytes without announcing a size"),
        "try again; if the download fails again, the server or a proxy is at "
        "fault");
  }
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), size_);
    if (written < 0 && errno != EINTR) {
      throw_errno("write", path_, errno);
    }
    if (written > 0) {
      size_ += written;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

void BlobFile::end_of_response() {
  complete_ = !expected_.size;
  if (expected_.size && size_ < *expected_.size) {
    const std::int64_t size = size_;
    clear();
    throw FormatError(
        str_cat(
            expected_.url,
            " stopped sending after ",
            size,
            " bytes, but ",
            *expected_.size,
            " were announced"),
        "try again; if the download fails again, the server or a proxy is at "
        "fault");
  }
}

void BlobFile::check_digest() {
  const bool is_git = is_git_blob(expected_.etag);
  if (!is_git && !is_sha256(expected_.etag)) {
    return;
  }
  using Algorithm = accelerate::StreamDigest::Algorithm;
  accelerate::StreamDigest digest(is_git ? Algorithm::sha1 : Algorithm::sha256);
  if (is_git) {
    digest.add(str_cat("blob ", size_, std::string(1, '\0')));
  }
  std::vector<char> piece(std::size_t{1} << 20);
  std::int64_t offset = 0;
  while (offset < size_) {
    const ssize_t got = ::pread(fd_.get(), piece.data(), piece.size(), offset);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      throw_errno("read", path_, got == 0 ? EIO : errno);
    }
    if (got > 0) {
      digest.add({piece.data(), static_cast<std::size_t>(got)});
      offset += got;
    }
  }
  if (const std::string hex = digest.hex(); hex != expected_.etag) {
    ::unlink(path_.c_str());
    throw FormatError(
        str_cat(
            expected_.url,
            " sent ",
            size_,
            " bytes with ",
            is_git ? "git SHA-1 " : "SHA-256 ",
            hex,
            ", expected ",
            expected_.etag),
        "try again; if the download fails again, the server or a proxy is at "
        "fault");
  }
}

void BlobFile::finish() {
  check_digest();
  if (::fsync(fd_.get()) != 0 ||
      ::rename(path_.c_str(), expected_.blob.c_str()) != 0) {
    throw_errno("write", expected_.blob, errno);
  }
}

}  // namespace transformers::hub
