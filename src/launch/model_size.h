// SPDX-License-Identifier: Apache-2.0
// Computes the number of parameters in a model without creating the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/json.h"

namespace accelerate {

/// A layer with weights: a matrix with its bias, or a norm.
struct ModelLayer {
  std::string name;
  std::int64_t parameters = 0;
};

struct ModelSize {
  std::string source;  ///< The file that the size was read from.
  std::vector<ModelLayer> layers;

  std::int64_t parameters() const;
  const ModelLayer& largest() const;
};

/// Computes the size from `config`, the content of a `config.json`, based on
/// its `model_type`. Throws `UnsupportedError` if the model type is not
/// supported, and `FormatError` if a required number is missing or
/// unrealistically large.
ModelSize size_from_config(const Json& config, const std::string& source);

/// Reads the size from a safetensors file, a `config.json` or a folder. In a
/// folder, reads the first of these that exists: the files that
/// `model.safetensors.index.json` lists, `model.safetensors`, all safetensors
/// files, `config.json`.
ModelSize read_model_size(const std::filesystem::path& path);

/// Number of bytes that each process needs to train with Adam.
struct TrainingBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;

  double total() const { return weights + gradients + optimizer; }
};

/// Returns the memory that each process needs to train a model at a ZeRO stage.
/// Stage 0 shards nothing. Stage 1 shards the optimizer state, stage 2 also the
/// gradients, and stage 3 also the weights. Each weight, each gradient and each
/// of Adam's two values per parameter takes `value_bytes`.
TrainingBytes training_bytes(
    std::int64_t parameters,
    double value_bytes,
    int zero_stage,
    std::int64_t processes);

}  // namespace accelerate
