// SPDX-License-Identifier: Apache-2.0
// Saves the weights of one model.
#pragma once

#include <filesystem>

#include "accelerate/fwd.h"
#include "accelerate/saving.h"
#include "accelerate/tensor_map.h"

namespace accelerate {

/// Returns the parameters and buffers of a model. A tied weight appears under
/// each of its names.
TensorMap state_dict_of(const torch::nn::Module& model);

/// Throws `StateError` if a tensor in `weights` is on the `meta` device, and
/// `ArgumentError` if `directory` is a file.
void check_model_files(
    const TensorMap& weights, const std::filesystem::path& directory);

/// Writes weights in Hugging Face's layout; see `Accelerator::save_model`.
/// Warns about tied weights, which are written once.
void write_model_files(
    const TensorMap& weights,
    const std::filesystem::path& directory,
    const SaveModelOptions& options);

}  // namespace accelerate
