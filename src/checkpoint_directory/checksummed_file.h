// SPDX-License-Identifier: Apache-2.0
// A new file whose checksum is computed while it is written.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"
#include "checkpoint_directory/checksum.h"

namespace accelerate {

/// How bytes are written to the disk.
enum class WriteMode {
  /// Through the page cache. This is the fastest mode, and later reads find the
  /// file in the cache.
  page_cache,
  /// With direct I/O if the disk is local, otherwise through the page cache.
  /// Direct I/O needs a tenth of the CPU time, which leaves more CPU time for
  /// training, and does not evict other files from the page cache.
  direct,
};

/// Writes a new file in a staging folder. Because the whole folder is renamed
/// when it is complete, the file needs no temporary name.
///
/// Throws an `IoError` that names the path if the file already exists or cannot
/// be written.
class ChecksummedFile {
 public:
  explicit ChecksummedFile(
      std::filesystem::path path, WriteMode mode = WriteMode::page_cache);

  void write(std::string_view bytes);
  /// Syncs the file to the disk and returns its length and checksum.
  FileChecksum finish();

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  void write_out(std::string_view bytes);
  void write_rest();
  void disable_direct_io();
  void flush_some();

  std::filesystem::path path_;
  UniqueFd fd_;
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
  std::uint64_t flushed_ = 0;
  bool is_direct_ = false;
  // Direct I/O needs whole blocks in aligned memory. This buffer holds the
  // bytes that are not written yet.
  std::unique_ptr<char, Free> buffer_;
  std::size_t buffered_ = 0;
};

/// Writes a file with this content and returns its length and checksum.
FileChecksum write_checksummed(
    const std::filesystem::path& path, std::string_view content);

}  // namespace accelerate
