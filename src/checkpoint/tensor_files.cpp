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
#include "folders/plain_file.h"

namespace accelerate {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kAhead = 16 * kPiece;
constexpr std::size_t kLength = 8;

// Fills `to` from a place of a file; returns what is wrong, or nothing.
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
      return str_cat("ends at byte ", offset);
    }
    to += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return "";
}

bool is_in_memory(const int fd, const std::uint64_t offset) {
  char byte = 0;
  const iovec to{&byte, 1};
  return ::preadv2(fd, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT) >= 0;
}

// Has the disk begin to read a piece of a file. Asking the system for each page
// of one that it holds would take time too: its ends speak for the rest.
void ask_for(
    const int fd, const std::uint64_t offset, const std::size_t bytes) {
  if (!is_in_memory(fd, offset) || !is_in_memory(fd, offset + bytes - 1)) {
    ::readahead(fd, static_cast<off64_t>(offset), bytes);
  }
}

// Brings in mapped pages by a call that can fail: looking at a page that the
// disk cannot read would end the process. Returns what is wrong, or nothing.
std::string bring_in(std::byte* from, const std::size_t bytes) {
  const auto before = reinterpret_cast<std::uintptr_t>(from) % page_bytes();
  if (::madvise(from - before, bytes + before, MADV_POPULATE_READ) != 0) {
    return str_cat(
        "cannot be read: ", errno_text(errno == EFAULT ? EIO : errno));
  }
  return "";
}

// The process has no use for these pages any more; the system keeps the file's
// content as long as it likes. Those at the edges may be another piece's too.
void let_go(std::byte* from, const std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const std::size_t before = aligned_to_pages(address) - address;
  const std::size_t after = (address + bytes) % page_bytes();
  if (before + after < bytes) {
    ::madvise(from + before, bytes - before - after, MADV_DONTNEED);
  }
}

// Nothing where the kernel has no such call.
std::shared_ptr<MappedFile> map_file(
    const TensorFileToRead& file, const MappedFile::Mode mode) {
  auto mapping = std::make_shared<MappedFile>(file.fd.get(), file.path, mode);
  const bool fails = ::madvise(mapping->data(), 1, MADV_POPULATE_READ) != 0;
  return fails && errno == EINVAL ? nullptr : mapping;
}

std::string read_front(
    const TensorFileToRead& file, std::size_t begin, std::size_t bytes) {
  std::string text(bytes, '\0');
  const std::string problem = read_at(
      file.fd.get(), reinterpret_cast<std::byte*>(text.data()), bytes, begin);
  if (!problem.empty()) {
    throw IoError(str_cat(file.path.string(), " ", problem));
  }
  return text;
}

struct Piece {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

// In the order of the file; those of a mapped one are in their places.
std::vector<Piece> pieces_of(const TensorFileToRead& file) {
  std::vector<Piece> pieces;
  if (file.mapping) {
    for (std::size_t at = 0; at < file.mapping->size(); at += kPiece) {
      pieces.push_back(
          {at,
           std::min(kPiece, file.mapping->size() - at),
           file.mapping->data() + at});
    }
    return pieces;
  }
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

/// One file while threads read its pieces. The checksum needs them in order:
/// whoever brings the next one adds all that are there by then.
///
/// Thread safety: `read` may be called for different pieces at once.
class Reading {
 public:
  explicit Reading(const TensorFileToRead& file)
      : file_(file), pieces_(pieces_of(file)), there_(pieces_.size(), false) {
    if (!file.mapping) {
      checksum_.add(file.front);
    }
    ask_for(file.fd.get(), 0, kAhead);
  }

  std::size_t size() const { return pieces_.size(); }

  void read(const std::size_t index) {
    const Piece& piece = pieces_[index];
    // The disk is asked early enough to be busy all the time.
    ask_for(file_.fd.get(), piece.offset + kAhead, piece.bytes);
    std::string problem = bring(piece);
    std::unique_lock lock(mutex_);
    if (!problem.empty()) {
      problem_ = std::move(problem);
    }
    there_[index] = true;
    if (is_adding_) {
      return;
    }
    is_adding_ = true;
    // What could not be read may be memory that nobody may look at.
    while (added_ < pieces_.size() && there_[added_] && problem_.empty()) {
      lock.unlock();
      add(pieces_[added_]);
      lock.lock();
      ++added_;
    }
    is_adding_ = false;
  }

  /// Once everything is read.
  std::string problem() const {
    if (!problem_.empty()) {
      return problem_;
    }
    const std::string found = checksum_.text();
    return found == file_.expected.xxh3 ? ""
                                        : str_cat(
                                              "has checksum ",
                                              found,
                                              ", the manifest says ",
                                              file_.expected.xxh3);
  }

 private:
  std::string bring(const Piece& piece) {
    if (file_.mapping) {
      return bring_in(piece.to, piece.bytes);
    }
    if (file_.filler && file_.filler->covers(piece.to)) {
      std::byte* from = file_.source->data() + piece.offset;
      const std::size_t end = piece.bytes % page_bytes();
      std::string problem = bring_in(from + piece.bytes - end, end);
      const bool filled =
          problem.empty() && file_.filler->fill(piece.to, from, piece.bytes);
      let_go(from, piece.bytes);
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
  std::vector<bool> there_;
  std::size_t added_ = 0;
  bool is_adding_ = false;
  Checksum checksum_;
  std::string problem_;
};

/// Deals out the pieces of several files, one file after the other.
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
    const std::filesystem::path& path,
    const FileSum& expected,
    const FileAccess access) {
  TensorFileToRead file;
  file.path = path;
  file.expected = expected;
  file.fd = open_plain_file(path);
  const std::uint64_t size = size_of_file(file.fd);
  const std::string start =
      read_front(file, 0, std::min<std::uint64_t>(size, kLength));
  const auto length = static_cast<std::size_t>(
      safetensors_header_length(start, size, path.string()));
  file.front = start + read_front(file, kLength, length);
  file.header = parse_safetensors_header(
      std::string_view(file.front).substr(kLength), size, path.string());
  if (access == FileAccess::map) {
    file.mapping = map_file(file, MappedFile::Mode::writable_copy);
  }
  return file;
}

void fill_from_mapping(
    TensorFileToRead& file, const std::shared_ptr<PageFiller>& filler) {
  file.source = map_file(file, MappedFile::Mode::read_only);
  file.filler = file.source ? filler : nullptr;
}

std::vector<std::string> read_tensor_files(
    const std::vector<TensorFileToRead>& files, const int threads) {
  std::vector<std::unique_ptr<Reading>> readings;
  for (const TensorFileToRead& file : files) {
    readings.push_back(std::make_unique<Reading>(file));
  }
  Queue queue(readings);
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) {
      others.emplace_back([&] { queue.work(); });
    }
    queue.work();
  }
  std::vector<std::string> problems;
  for (const auto& reading : readings) {
    problems.push_back(reading->problem());
  }
  return problems;
}

}  // namespace accelerate
