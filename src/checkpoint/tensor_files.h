// SPDX-License-Identifier: Apache-2.0
// Safetensors files, read into memory and summed on the way.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/safetensors_header.h"
#include "base/unique_fd.h"
#include "checkpoint/page_filler.h"
#include "folders/checksum.h"

namespace accelerate {

/// How the bytes of a file come into memory.
enum class FileAccess {
  copy,  ///< to where they are wanted
  map,   ///< not at all: tensors look at the system's copy of the file
};

/// A file whose header was read.
struct TensorFileToRead {
  std::filesystem::path path;
  FileSum expected;
  UniqueFd fd;
  /// The bytes before the tensors'.
  std::string front;
  SafetensorsHeader header;
  /// The whole file, if it is mapped.
  std::shared_ptr<MappedFile> mapping;
  /// Otherwise where the bytes of each tensor of the header go.
  std::vector<std::byte*> targets;
  /// Targets that it covers are filled by it, from `source`: the whole file.
  std::shared_ptr<PageFiller> filler;
  std::shared_ptr<MappedFile> source;
};

/// Has targets that `filler` covers filled by it, where the system lets us map
/// the file in a way that reports errors.
void fill_from_mapping(
    TensorFileToRead& file, const std::shared_ptr<PageFiller>& filler);

/// Throws `IoError` when it cannot be read and `FormatError` when it is not
/// what it claims; nobody has compared its checksum yet. Copies where the
/// system cannot map in a way that reports errors.
TensorFileToRead open_tensor_file(
    const std::filesystem::path& path,
    const FileSum& expected,
    FileAccess access);

/// Looks at every byte of the files, so many threads at once: copies each piece
/// to its target, if it has one, and adds it to the checksum while the cache
/// still holds it.
///
/// Returns for each file what is wrong with it; empty for one that is as
/// expected.
std::vector<std::string> read_tensor_files(
    const std::vector<TensorFileToRead>& files, int threads);

}  // namespace accelerate
