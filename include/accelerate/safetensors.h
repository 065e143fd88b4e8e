// SPDX-License-Identifier: Apache-2.0
// Tensors in safetensors files, alone and in Hugging Face folders.
//
//     accelerate::save_safetensors({{"w", w}, {"b", b}}, "model.safetensors");
//     const auto tensors = accelerate::load_safetensors("model.safetensors");
//     const auto weights = accelerate::load_sharded("checkpoint/");
//
// Reading maps the file: nothing is copied, and a page is read when it is
// looked at. A tensor keeps its file mapped; writing to it changes this
// process's copy of the page, never the file. Do not shorten a file that is
// mapped: replace it, as everything here does.
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

/// One safetensors file, open for reading.
///
/// Thread safety: `tensor` may be called from any thread.
class ACCELERATE_API SafetensorsFile {
 public:
  /// Throws `IoError` when it cannot be read, and `FormatError` naming path
  /// and byte when it is not what it claims.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  /// The names in the order of their bytes.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

  /// A tensor that looks into the file. Throws `ArgumentError` when there is
  /// none of that name, `UnsupportedError` when LibTorch has no such type.
  at::Tensor tensor(std::string_view name) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// All tensors of a file. Names that its metadata gives as aliases of others
/// (tied weights) are there too, as the same tensor.
[[nodiscard]] ACCELERATE_API TensorMap
load_safetensors(const std::filesystem::path& path);

struct SaveSafetensorsOptions {
  /// `{"format": "pt"}` is what Transformers asks for.
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

/// Writes a file through a temporary one and a rename. Tensors that are the
/// same memory are written once, under the first of their names; the metadata
/// then holds the others as aliases.
///
/// Throws `ArgumentError` for a tensor the format has no type for, or an
/// undefined or sparse one.
ACCELERATE_API void save_safetensors(
    const TensorMap& tensors,
    const std::filesystem::path& path,
    const SaveSafetensorsOptions& options = {});

/// The tensors of a folder: `<name>.safetensors`, or all that
/// `<name>.safetensors.index.json` lists.
///
/// Throws `IoError` when it has neither, `FormatError` when the index names a
/// file outside the folder or a tensor that its file does not hold.
[[nodiscard]] ACCELERATE_API TensorMap load_sharded(
    const std::filesystem::path& folder, const std::string& name = "model");

struct SaveShardedOptions {
  std::string name = "model";
  /// Bytes; a larger tensor gets a file of its own.
  std::uint64_t max_shard_size = std::uint64_t{50'000'000'000};
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
};

/// Writes `<name>.safetensors`, or when that would be larger than
/// `max_shard_size`, `<name>-00001-of-0000n.safetensors` and so on with an
/// index. Files of an earlier save under that name are removed at the end.
ACCELERATE_API void save_sharded(
    const TensorMap& tensors,
    const std::filesystem::path& folder,
    const SaveShardedOptions& options = {});

}  // namespace accelerate
