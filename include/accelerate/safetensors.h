// SPDX-License-Identifier: Apache-2.0
// Reads and writes safetensors files and Hugging Face model folders.
//
//     accelerate::save_safetensors({{"w", w}, {"b", b}}, "model.safetensors");
//     const auto tensors = accelerate::load_safetensors("model.safetensors");
//     const auto weights = accelerate::load_sharded("checkpoint/");
//
// Reading maps the file into memory: nothing is copied, and a page is read when
// it is first accessed. A tensor keeps its file mapped. Writing to a tensor
// changes only this process's copy of the page, never the file. Do not truncate
// a mapped file: replace it with a new file, as the functions in this header
// do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

/// A safetensors file that is open for reading.
///
/// Thread safety: several threads may call `tensor` at once.
class ACCELERATE_API SafetensorsFile {
 public:
  /// Throws `IoError` when the file cannot be read, and a `FormatError` with
  /// the path and byte offset when its contents are invalid.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  /// Returns the tensor names in the order in which the file stores the
  /// tensors.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

  /// Returns a tensor that is a view into the file. Throws `ArgumentError` if
  /// there is no tensor with this name, and `UnsupportedError` if LibTorch does
  /// not support the type of the tensor.
  at::Tensor tensor(std::string_view name) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Loads all tensors from a file. If the file's metadata lists several names
/// for a tensor (tied weights), the result has the same tensor under each name.
[[nodiscard]] ACCELERATE_API TensorMap
load_safetensors(const std::filesystem::path& path);

struct SaveSafetensorsOptions {
  /// The metadata in the header of the file. Hugging Face Transformers requires
  /// `{"format": "pt"}`.
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

/// Writes a temporary file and then renames it to `path`. Tensors that share
/// memory are written once, under the first of their names; the metadata then
/// holds the other names as aliases.
///
/// Throws `ArgumentError` for a tensor whose type the format does not support,
/// and for an undefined or sparse tensor.
ACCELERATE_API void save_safetensors(
    const TensorMap& tensors,
    const std::filesystem::path& path,
    const SaveSafetensorsOptions& options = {});

/// Loads the tensors from a folder: `<name>.safetensors`, or all files that
/// `<name>.safetensors.index.json` lists.
///
/// Throws `IoError` if the folder contains neither file, and `FormatError` if
/// the index names a file outside the folder or a tensor that its file does not
/// contain.
[[nodiscard]] ACCELERATE_API TensorMap load_sharded(
    const std::filesystem::path& folder, const std::string& name = "model");

struct SaveShardedOptions {
  std::string name = "model";
  /// Maximum file size in bytes. A larger tensor gets its own file.
  std::uint64_t max_shard_size = std::uint64_t{50'000'000'000};
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

/// Writes `<name>.safetensors`. If this file would exceed `max_shard_size`,
/// writes several files instead, named `<name>-00001-of-0000n.safetensors` and
/// so on, with an index. Finally removes files from an earlier save under the
/// same name.
ACCELERATE_API void save_sharded(
    const TensorMap& tensors,
    const std::filesystem::path& folder,
    const SaveShardedOptions& options = {});

}  // namespace accelerate
