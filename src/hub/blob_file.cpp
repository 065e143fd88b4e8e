// SPDX-License-Identifier: Apache-2.0
#include "hub/blob_file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;
using accelerate::str_cat;
using accelerate::throw_errno;

/// Whether an ETag has 64 hexadecimal digits. The ETag of a large file is its
/// SHA-256.
bool is_sha256(const std::string& etag) {
  return etag.size() == 64 && std::all_of(etag.begin(), etag.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

BlobFile::BlobFile(
    const std::filesystem::path& blob,
    std::string etag,
    std::optional<std::int64_t> expected,
    std::string url)
    : blob_(blob),
      path_(blob.string() + ".incomplete"),
      etag_(std::move(etag)),
      expected_(expected),
      url_(std::move(url)) {
  std::error_code error;
  std::filesystem::create_directories(blob.parent_path(), error);
  if (error) {
    throw_errno("create", blob.parent_path(), error.value());
  }
  fd_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd_) {
    throw_errno("write", path_, errno);
  }
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) {
    throw_errno("read", path_, errno);
  }
  size_ = info.st_size;
  // The download cannot resume if the expected size is unknown or exceeded.
  if (!expected_ || size_ > *expected_) {
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
            " and later, but the server sent `",
            range,
            "`"),
        str_cat("remove ", path_.string(), " and try again"));
  }
  return true;
}

void BlobFile::append(std::string_view bytes) {
  if (expected_ &&
      size_ + static_cast<std::int64_t>(bytes.size()) > *expected_) {
    clear();
    throw FormatError(
        str_cat(url_, " sent more than the announced ", *expected_, " bytes"),
        "try again; if it fails again, the server or a proxy is at fault");
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
  complete_ = !expected_;
  if (expected_ && size_ < *expected_) {
    const std::int64_t size = size_;
    clear();
    throw FormatError(
        str_cat(
            url_,
            " stopped sending after ",
            size,
            " bytes, but ",
            *expected_,
            " were announced"),
        "try again; if it fails again, the server or a proxy is at fault");
  }
}

void BlobFile::check_digest() {
  if (!is_sha256(etag_)) {
    return;
  }
  std::string digest;
  if (size_ == 0) {
    digest = accelerate::sha256_hex("");
  } else {
    const auto length = static_cast<std::size_t>(size_);
    void* mapped = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) {
      throw_errno("read", path_, errno);
    }
    digest = accelerate::sha256_hex({static_cast<const char*>(mapped), length});
    ::munmap(mapped, length);
  }
  if (digest != etag_) {
    ::unlink(path_.c_str());
    throw FormatError(
        str_cat(
            url_,
            " sent ",
            size_,
            " bytes with SHA-256 ",
            digest,
            ", expected ",
            etag_),
        "try again; if it fails again, the server or a proxy is at fault");
  }
}

void BlobFile::finish() {
  check_digest();
  if (::fsync(fd_.get()) != 0 || ::rename(path_.c_str(), blob_.c_str()) != 0) {
    throw_errno("write", blob_, errno);
  }
}

}  // namespace transformers::hub
