// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/checksum.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <optional>
#include <vector>

#include <sys/mman.h>

#include <xxhash.h>
// Computes the same checksums twice as fast on processors with wide vector
// registers. The header is installed only with a library that implements it.
#if __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include "base/files.h"
#include "checkpoint_directory/plain_file.h"

namespace accelerate {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
// Number of bytes that are mapped into memory at once; smaller files use
// `read`.
constexpr std::size_t kWindow = std::size_t{8} << 20;

std::string hex(const XXH64_hash_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64, std::uint64_t{value});
  return text.data();
}

/// Maps the pages of a file without copying them. A call that can fail
/// populates each window, because touching a page that the disk cannot read
/// would kill the process.
class Pages {
 public:
  explicit Pages(const UniqueFd& fd)
      : size_(static_cast<std::size_t>(size_of_file(fd))),
        data_(::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0)) {
    if (*this) {
      ::madvise(data_, size_, MADV_SEQUENTIAL);
    }
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (*this) {
      ::munmap(data_, size_);
    }
  }

  explicit operator bool() const { return data_ != MAP_FAILED; }
  std::size_t size() const { return size_; }

  /// The window at `offset`; empty, with `errno` set, when it cannot be read.
  std::optional<std::string_view> window(const std::size_t offset) const {
    char* begin = static_cast<char*>(data_) + offset;
    const std::size_t bytes = std::min(kWindow, size_ - offset);
    if (::madvise(begin, bytes, MADV_POPULATE_READ) != 0) {
      return std::nullopt;
    }
    return std::string_view(begin, bytes);
  }

 private:
  std::size_t size_;
  void* data_;
};

// Returns nothing if the kernel does not support MADV_POPULATE_READ.
std::optional<FileChecksum> checksum_pages(
    const UniqueFd& fd, const std::filesystem::path& path) {
  const Pages pages(fd);
  if (!pages) {
    return std::nullopt;
  }
  Checksum checksum;
  for (std::size_t offset = 0; offset < pages.size(); offset += kWindow) {
    const auto window = pages.window(offset);
    if (!window && errno == EINVAL) {
      return std::nullopt;
    }
    if (!window) {
      throw_errno("read", path, errno == EFAULT ? EIO : errno);
    }
    checksum.add(*window);
  }
  return FileChecksum{pages.size(), checksum.text()};
}

}  // namespace

struct Checksum::State {
  State() : hash(XXH3_createState()) {
    if (hash == nullptr) {
      throw std::bad_alloc();
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }

  XXH3_state_t* hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->hash);
}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(const std::string_view bytes) {
  XXH3_64bits_update(state_->hash, bytes.data(), bytes.size());
}

std::string Checksum::text() const {
  return hex(XXH3_64bits_digest(state_->hash));
}

std::string checksum_of(const std::string_view bytes) {
  return hex(XXH3_64bits(bytes.data(), bytes.size()));
}

FileChecksum checksum_file(const std::filesystem::path& path) {
  const UniqueFd fd = open_plain_file(path);
  if (size_of_file(fd) >= kWindow) {
    if (const auto sum = checksum_pages(fd, path)) {
      return *sum;
    }
  }
  std::vector<char> piece(kPiece);
  FileChecksum sum;
  Checksum checksum;
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw_errno("read", path, errno);
    }
    if (got == 0) {
      break;
    }
    sum.bytes += static_cast<std::uint64_t>(got);
    checksum.add({piece.data(), static_cast<std::size_t>(got)});
  }
  sum.xxh3 = checksum.text();
  return sum;
}

}  // namespace accelerate
