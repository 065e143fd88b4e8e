// SPDX-License-Identifier: Apache-2.0
// Reads safetensors files into memory and computes their checksums while
// reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/safetensors_header.h"
#include "base/unique_fd.h"
#include "checkpoint/page_filler.h"
#include "checkpoint_directory/checksum.h"

namespace accelerate {

/// An open safetensors file whose header has been read.
struct TensorFileToRead {
  std::filesystem::path path;
  FileChecksum expected;
  UniqueFd fd;
  /// The bytes before the tensor data: the length of the header, then the
  /// header.
  std::string header_bytes;
  SafetensorsHeader header;
  /// The target address of each tensor in the header.
  std::vector<std::byte*> targets;
  /// If not null, the filler copies from `source` to the targets that it
  /// covers; other targets are read from `fd`.
  std::shared_ptr<PageFiller> filler;
  /// The whole file, mapped for `filler`; null without a filler.
  std::shared_ptr<MappedFile> source;
};

/// Maps the file, so that `filler` can copy from it to the targets that
/// `filler` covers. Does nothing if the Linux kernel cannot report read errors
/// in mapped files.
void fill_from_mapping(
    TensorFileToRead& file, const std::shared_ptr<PageFiller>& filler);

/// Opens a file and reads its header; does not verify its checksum. Throws
/// `IoError` if the file cannot be read and `FormatError` if the header is
/// invalid.
TensorFileToRead open_tensor_file(
    const std::filesystem::path& path, const FileChecksum& expected);

/// Bytes of a file, and the memory that they are read into.
struct FileRange {
  /// The index of the file in the list of files.
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

/// Reads only the given ranges of the files, with `threads` threads. Does not
/// compare checksums, because a checksum covers a whole file.
///
/// Returns one string per file: the problem with the file, or an empty string.
std::vector<std::string> read_file_ranges(
    const std::vector<TensorFileToRead>& files,
    const std::vector<FileRange>& ranges,
    int threads);

/// Reads every byte of the files with `threads` threads: copies each piece to
/// its target, if there is one, and adds the piece to the checksum while it is
/// still in the processor's cache.
///
/// Returns one string per file: the problem with the file, or an empty string
/// if the file is undamaged.
std::vector<std::string> read_tensor_files(
    const std::vector<TensorFileToRead>& files, int threads);

}  // namespace accelerate
