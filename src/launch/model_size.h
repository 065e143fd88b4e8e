// SPDX-License-Identifier: Apache-2.0
// How many parameters a model has, without building it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

/// One layer with weights of its own: a matrix with its bias, a norm.
struct ModelLayer {
  std::string name;
  std::int64_t parameters = 0;
};

struct ModelSize {
  std::string source;  ///< The file it was read from.
  std::vector<ModelLayer> layers;

  std::int64_t parameters() const;
  const ModelLayer& largest() const;
};

/// From `config.json`, by the rules of its `model_type`. Throws
/// `UnsupportedError` naming the types that are known, `FormatError` when a
/// number is missing, or larger than any model has.
ModelSize size_from_config(const Json& config, const std::string& source);

/// From the headers of a folder's safetensors files, or else its
/// `config.json`; or from a file of either kind. Of a folder the files its
/// index names are read, or `model.safetensors`, or else all there are.
ModelSize read_model_size(const std::filesystem::path& path);

/// Bytes of training with Adam, for one of `processes`.
struct TrainingBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;

  double total() const { return weights + gradients + optimizer; }
};

/// ZeRO stage 0 shares out nothing, 1 the optimizer's state, 2 the gradients
/// too, 3 the weights too. Weights, gradients and Adam's two numbers for each
/// parameter have `value_bytes` bytes each.
TrainingBytes training_bytes(
    std::int64_t parameters,
    double value_bytes,
    int zero_stage,
    std::int64_t processes);

}  // namespace accelerate
