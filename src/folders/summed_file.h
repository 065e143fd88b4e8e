// SPDX-License-Identifier: Apache-2.0
// A new file whose checksum is known when it is written.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/unique_fd.h"
#include "folders/checksum.h"

namespace accelerate {

/// How bytes get to the disk.
enum class WriteVia {
  /// Through the system's cache: soonest done, and there for a reader.
  cache,
  /// Past it where the disk is a local one: takes a tenth of the processors'
  /// time, which others have a use for, and leaves their files in the cache.
  disk,
};

/// Writes a file that must not exist yet, inside a folder that is not visible
/// under its own name yet; so no temporary name is needed.
///
/// Throws `IoError` naming the path.
class SummedFile {
 public:
  explicit SummedFile(
      std::filesystem::path path, WriteVia via = WriteVia::cache);

  void write(std::string_view bytes);
  /// Brings the file to the disk and returns what the manifest says of it.
  FileSum finish();

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  void write_out(std::string_view bytes);
  void write_rest();
  void go_through_cache();
  void flush_some();

  std::filesystem::path path_;
  UniqueFd fd_;
  Checksum checksum_;
  std::uint64_t bytes_ = 0;
  std::uint64_t flushed_ = 0;
  bool past_cache_ = false;
  // Only whole blocks from aligned memory can go past the cache: this is it,
  // with the bytes in it that are not written yet.
  std::unique_ptr<char, Free> blocks_;
  std::size_t waiting_ = 0;
};

/// Writes a whole small file that way.
FileSum write_summed(
    const std::filesystem::path& path, std::string_view content);

}  // namespace accelerate
