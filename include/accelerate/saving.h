// SPDX-License-Identifier: Apache-2.0
// Saves and loads single files and models. `Accelerator::save_state` saves the
// whole state of a run.
//
//     accelerator.save_model(model, "tuned", {.max_shard_size = "5GB"});
//     accelerator.save(accelerator.get_state_dict(model), "w.safetensors");
//     const auto weights = accelerate::load("w.safetensors");
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "accelerate/byte_size.h"
#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace accelerate {

struct SaveModelOptions {
  /// Maximum file size. A larger model is split into several files with an
  /// index. A larger tensor gets its own file.
  ByteSize max_shard_size = "10GB";
};

/// Writes tensors as safetensors, or a value as JSON, to a temporary file, and
/// then renames the file to `path`. Creates missing folders. Throws `IoError`
/// if the file cannot be written.
ACCELERATE_API void save(
    const std::map<std::string, Tensor>& tensors,
    const std::filesystem::path& path);
ACCELERATE_API void save(const Json& value, const std::filesystem::path& path);

/// Loads a file that `save` wrote. `load` returns tensors, and `load<Json>`
/// returns a JSON value. Throws `FormatError` for a pickle, the format of
/// `torch.save`: `load` never executes code from a file.
template <typename T = std::map<std::string, Tensor>>
[[nodiscard]] T load(const std::filesystem::path& path);
template <>
ACCELERATE_API std::map<std::string, Tensor> load(
    const std::filesystem::path& path);
template <>
ACCELERATE_API Json load(const std::filesystem::path& path);

}  // namespace accelerate
