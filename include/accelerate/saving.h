// SPDX-License-Identifier: Apache-2.0
// Single files and models, without the rest of a run; for all of a run see
// `Accelerator::save_state`.
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
  /// A larger model is divided into files of at most this size, with an index;
  /// a larger tensor gets a file of its own.
  ByteSize max_shard_size = "10GB";
};

/// Writes tensors as safetensors, or a value as JSON, through a temporary file
/// and a rename. Creates missing folders. Throws `IoError`.
ACCELERATE_API void save(
    const std::map<std::string, Tensor>& tensors,
    const std::filesystem::path& path);
ACCELERATE_API void save(const Json& value, const std::filesystem::path& path);

/// What `save` wrote: tensors, or with `load<Json>` a value. Nothing in a file
/// is ever run; a pickle (`torch.save`) is refused with a `FormatError`.
template <typename T = std::map<std::string, Tensor>>
[[nodiscard]] T load(const std::filesystem::path& path);
template <>
ACCELERATE_API std::map<std::string, Tensor> load(
    const std::filesystem::path& path);
template <>
ACCELERATE_API Json load(const std::filesystem::path& path);

}  // namespace accelerate
