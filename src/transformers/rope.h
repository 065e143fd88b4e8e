// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings (RoPE) with the published methods for scaling
// them.
//
// Shapes: B batch, H heads, T tokens, D width of a head, F = D / 2.
#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

#include "transformers/configuration.h"

namespace transformers {

/// The rotation angles for a model's positions.
///
/// Thread safety: only one thread at a time may use an object, because the RoPE
/// type "dynamic" stores the length of the longest sequence so far, as in
/// Hugging Face Transformers.
class RotaryEmbedding {
 public:
  /// Throws `UnsupportedError` for an unknown RoPE type and `ArgumentError` for
  /// missing parameters.
  RotaryEmbedding(
      RopeParameters parameters,
      std::int64_t head_dim,
      std::int64_t max_position_embeddings);

  /// Returns the cosines and the sines of the angles: two tensors [B, 1, T, D]
  /// of type `dtype`.
  std::pair<at::Tensor, at::Tensor> operator()(
      const at::Tensor& position_ids_BT, at::ScalarType dtype);

 private:
  /// Returns `factor`; if it is not set, returns the ratio of the context
  /// length to the original context length.
  double context_factor() const;
  at::Tensor frequencies_F(std::int64_t length) const;
  void update_frequencies(const at::Tensor& position_ids_BT);

  RopeParameters parameters_;
  std::int64_t head_dim_;
  std::int64_t max_positions_;
  std::int64_t longest_;
  double scaling_ = 1.0;
  at::Tensor inv_freq_F_;
};

/// Applies the rotary embedding to queries or keys [B, H, T, D].
at::Tensor rotate(
    const at::Tensor& x_BHTD,
    const at::Tensor& cos_B1TD,
    const at::Tensor& sin_B1TD);

}  // namespace transformers
