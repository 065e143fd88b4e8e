// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "checkpoint_directory/plain_file.h"

namespace accelerate {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kReadahead = 16 * kPiece;
constexpr std::size_t kLength = 8;

// Fills `to` from an offset of a file; returns the problem, or an empty string.
std::string read_at(
    const int fd, std::byte* to, std::size_t bytes, std::uint64_t offset) {
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return str_cat("cannot be read: ", errno_text(errno));
    }
    if (got == 0) {
      return str_cat("ends too early, at byte ", offset);
    }
    to += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return "";
}

bool is_cached(const int fd, const std::uint64_t offset) {
  char byte = 0;
  const iovec to{&byte, 1};
  return ::preadv2(fd, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT) >= 0;
}

// Starts reading a piece of a file ahead. Skips the call if the first and the
// last page of the piece are cached, because the call takes time even for
// cached pages.
void read_ahead(
    const int fd, const std::uint64_t offset, const std::size_t bytes) {
  if (!is_cached(fd, offset) || !is_cached(fd, offset + bytes - 1)) {
    ::readahead(fd, static_cast<off64_t>(offset), bytes);
  }
}

// Populates mapped pages with a call that can fail, because touching a page
// that the disk cannot read would kill the process. Returns the problem, or an
// empty string.
std::string populate(std::byte* from, const std::size_t bytes) {
  const auto before = reinterpret_cast<std::uintptr_t>(from) % page_bytes();
  if (::madvise(from - before, bytes + before, MADV_POPULATE_READ) != 0) {
    return str_cat(
        "cannot be read: ", errno_text(errno == EFAULT ? EIO : errno));
  }
  return "";
}

// Unmaps pages that are no longer needed; the page cache may keep their
// content. Pages at the edges may belong to another piece.
void release_pages(std::byte* from, const std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const std::size_t before = aligned_to_pages(address) - address;
  const std::size_t after = (address + bytes) % page_bytes();
  if (before + after < bytes) {
    ::madvise(from + before, bytes - before - after, MADV_DONTNEED);
  }
}

// Returns null if the kernel does not support MADV_POPULATE_READ.
std::shared_ptr<MappedFile> map_file(const TensorFileToRead& file) {
  auto mapping = std::make_shared<MappedFile>(
      file.fd.get(), file.path, MappedFile::Mode::read_only);
  const bool fails = ::madvise(mapping->data(), 1, MADV_POPULATE_READ) != 0;
  return fails && errno == EINVAL ? nullptr : mapping;
}

std::string read_header_bytes(
    const TensorFileToRead& file, std::size_t begin, std::size_t bytes) {
  std::string text(bytes, '\0');
  const std::string problem = read_at(
      file.fd.get(), reinterpret_cast<std::byte*>(text.data()), bytes, begin);
  if (!problem.empty()) {
    throw IoError(str_cat(file.path.string(), " ", problem));
  }
  return text;
}

// Runs `work` on this thread and on `threads` - 1 other threads.
template <typename Work>
void run_on_threads(const int threads, const Work& work) {
  std::vector<std::jthread> workers;
  for (int thread = 1; thread < threads; ++thread) {
    workers.emplace_back([&] { work(); });
  }
  work();
}

struct Piece {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

// Returns the pieces in the order of the file.
std::vector<Piece> pieces_of(const TensorFileToRead& file) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < file.header.tensors.size(); ++i) {
    std::byte* to = file.targets[i];
    std::uint64_t offset = file.header.tensors[i].begin;
    while (offset < file.header.tensors[i].end) {
      const auto bytes = static_cast<std::size_t>(
          std::min<std::uint64_t>(kPiece, file.header.tensors[i].end - offset));
      pieces.push_back({offset, bytes, to});
      offset += bytes;
      to += bytes;
    }
  }
  return pieces;
}

/// A file whose pieces several threads read. The checksum needs the pieces in
/// order, so the thread that has read the next piece also adds the later pieces
/// that are ready.
///
/// Thread safety: `read` may be called for different pieces at once.
class Reading {
 public:
  explicit Reading(const TensorFileToRead& file)
      : file_(file),
        pieces_(pieces_of(file)),
        is_ready_(pieces_.size(), false) {
    checksum_.add(file.header_bytes);
    read_ahead(file.fd.get(), 0, kReadahead);
  }

  std::size_t size() const { return pieces_.size(); }

  void read(const std::size_t index) {
    const Piece& piece = pieces_[index];
    // Reads ahead early enough to keep the disk busy.
    read_ahead(file_.fd.get(), piece.offset + kReadahead, piece.bytes);
    std::string problem = load(piece);
    std::unique_lock lock(mutex_);
    if (!problem.empty()) {
      problem_ = std::move(problem);
    }
    is_ready_[index] = true;
    if (is_adding_) {
      return;
    }
    is_adding_ = true;
    // Memory that could not be filled must not be touched.
    while (added_ < pieces_.size() && is_ready_[added_] && problem_.empty()) {
      lock.unlock();
      add(pieces_[added_]);
      lock.lock();
      ++added_;
    }
    is_adding_ = false;
  }

  /// Must be called after all pieces have been read.
  std::string problem() const {
    if (!problem_.empty()) {
      return problem_;
    }
    const std::string found = checksum_.text();
    return found == file_.expected.xxh3 ? ""
                                        : str_cat(
                                              "has checksum ",
                                              found,
                                              ", but the manifest says ",
                                              file_.expected.xxh3);
  }

 private:
  std::string load(const Piece& piece) {
    if (file_.filler && file_.filler->covers(piece.to)) {
      std::byte* from = file_.source->data() + piece.offset;
      const std::size_t end = piece.bytes % page_bytes();
      std::string problem = populate(from + piece.bytes - end, end);
      const bool filled =
          problem.empty() && file_.filler->fill(piece.to, from, piece.bytes);
      release_pages(from, piece.bytes);
      if (filled || !problem.empty()) {
        return problem;
      }
    }
    return read_at(file_.fd.get(), piece.to, piece.bytes, piece.offset);
  }

  void add(const Piece& piece) {
    checksum_.add({reinterpret_cast<const char*>(piece.to), piece.bytes});
  }

  const TensorFileToRead& file_;
  const std::vector<Piece> pieces_;
  std::mutex mutex_;
  std::vector<bool> is_ready_;
  std::size_t added_ = 0;
  bool is_adding_ = false;
  Checksum checksum_;
  std::string problem_;
};

/// Hands out the pieces of several files, one file after the other.
class Queue {
 public:
  explicit Queue(std::vector<std::unique_ptr<Reading>>& files)
      : files_(files) {}

  void work() {
    for (std::size_t next = next_++;; next = next_++) {
      std::size_t file = 0;
      while (file < files_.size() && next >= files_[file]->size()) {
        next -= files_[file++]->size();
      }
      if (file == files_.size()) {
        return;
      }
      files_[file]->read(next);
    }
  }

 private:
  std::vector<std::unique_ptr<Reading>>& files_;
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace

TensorFileToRead open_tensor_file(
    const std::filesystem::path& path, const FileChecksum& expected) {
  TensorFileToRead file;
  file.path = path;
  file.expected = expected;
  file.fd = open_plain_file(path);
  const std::uint64_t size = size_of_file(file.fd);
  const std::string start =
      read_header_bytes(file, 0, std::min<std::uint64_t>(size, kLength));
  const auto length = static_cast<std::size_t>(
      safetensors_header_length(start, size, path.string()));
  file.header_bytes = start + read_header_bytes(file, kLength, length);
  file.header = parse_safetensors_header(
      std::string_view(file.header_bytes).substr(kLength), size, path.string());
  return file;
}

void fill_from_mapping(
    TensorFileToRead& file, const std::shared_ptr<PageFiller>& filler) {
  file.source = map_file(file);
  file.filler = file.source ? filler : nullptr;
}

std::vector<std::string> read_file_ranges(
    const std::vector<TensorFileToRead>& files,
    const std::vector<FileRange>& ranges,
    const int threads) {
  std::vector<FileRange> pieces;
  for (const FileRange& range : ranges) {
    for (std::size_t at = 0; at < range.bytes; at += kPiece) {
      pieces.push_back(
          {.file = range.file,
           .offset = range.offset + at,
           .bytes = std::min(kPiece, range.bytes - at),
           .to = range.to + at});
    }
  }
  std::vector<std::string> problems(files.size());
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  run_on_threads(threads, [&] {
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const FileRange& piece = pieces[i];
      std::string problem = read_at(
          files[piece.file].fd.get(), piece.to, piece.bytes, piece.offset);
      if (!problem.empty()) {
        const std::lock_guard lock(mutex);
        problems[piece.file] = std::move(problem);
      }
    }
  });
  return problems;
}

std::vector<std::string> read_tensor_files(
    const std::vector<TensorFileToRead>& files, const int threads) {
  std::vector<std::unique_ptr<Reading>> readings;
  for (const TensorFileToRead& file : files) {
    readings.push_back(std::make_unique<Reading>(file));
  }
  Queue queue(readings);
  run_on_threads(threads, [&] { queue.work(); });
  std::vector<std::string> problems;
  for (const auto& reading : readings) {
    problems.push_back(reading->problem());
  }
  return problems;
}

}  // namespace accelerate
