// SPDX-License-Identifier: Apache-2.0
// The embeddings of the encoders: the sum of word, position and type
// embeddings, then a norm and dropout.
//
// Shapes: B batch, T tokens, D width.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "transformers/layers.h"
#include "transformers/model_inputs.h"

namespace transformers {

/// The embedding layer, which models register as `embeddings`.
class SummedEmbeddings : public Layer {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t words = 0;
    std::int64_t positions = 0;
    std::int64_t types = 0;  ///< If 0, there are no types.
    std::optional<std::int64_t> padding_id;
    /// Whether the positions of real tokens start at the padding id plus one,
    /// and padding has the padding id as its position.
    bool skips_padding = false;
    /// Whether position embeddings are initialized as sines and cosines.
    bool sinusoidal = false;
    double norm_eps = 1e-12;
    double dropout = 0.0;
  };
  explicit SummedEmbeddings(const Options& options);
  void initialize(const Initializer& init) override;

  /// Computes the embeddings [B, T, D], with the fused function if it was
  /// chosen and supports the sizes.
  at::Tensor operator()(const ModelInputs& inputs) const;

  std::shared_ptr<Embedding> words;

 private:
  // Returns the position ids, or an undefined tensor for the default positions
  // 0, 1, 2, …
  at::Tensor position_ids_BT(const ModelInputs& inputs) const;
  at::Tensor fused(
      const ModelInputs& inputs, const at::Tensor& position_ids) const;

  Options options_;
  std::shared_ptr<Embedding> positions_, types_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace transformers
