// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings with the published ways to stretch them.
//
// Shapes: B batch, H heads, T tokens, D width of a head, F half of it.
#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

#include "transformers/configuration.h"

namespace transformers {

/// The angles of a model's positions. Not thread-safe: "dynamic" remembers the
/// longest sequence it has seen, as the peer does.
class RotaryEmbedding {
 public:
  /// Throws `UnsupportedError` for an unknown type and `ArgumentError` for one
  /// whose parameters are missing.
  RotaryEmbedding(
      RopeParameters parameters,
      std::int64_t head_dim,
      std::int64_t max_position_embeddings);

  /// Cosine and sine, each [B, 1, T, D], of the type asked for.
  std::pair<at::Tensor, at::Tensor> operator()(
      const at::Tensor& position_ids_BT, at::ScalarType dtype);

 private:
  at::Tensor frequencies_F(std::int64_t length) const;
  void follow(const at::Tensor& position_ids_BT);

  RopeParameters parameters_;
  std::int64_t head_dim_;
  std::int64_t max_positions_;
  std::int64_t longest_;
  double scaling_ = 1.0;
  at::Tensor inv_freq_F_;
};

/// Turns queries or keys [B, H, T, D] by their positions' angles.
at::Tensor rotate(
    const at::Tensor& x_BHTD,
    const at::Tensor& cos_B1TD,
    const at::Tensor& sin_B1TD);

}  // namespace transformers
