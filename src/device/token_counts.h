// SPDX-License-Identifier: Apache-2.0
// How many real tokens a mask on a device has, known without waiting for the
// device.
//
// A data loader has each batch in CPU memory before it copies the batch to the
// device. It counts the tokens there and attaches the counts to the tensor on
// the device. A model finds the counts in the batch that it gets; programs need
// not know about them.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"

namespace accelerate {

/// Facts about the values of a mask: a matrix with a row for each sequence and
/// a column for each token, 1 for a real token and 0 for padding.
struct TokenCounts {
  /// The number of real tokens.
  std::int64_t real = 0;
  /// Whether the first token of each row is real.
  bool has_first_tokens = true;
};

/// Counts the tokens in a mask in CPU memory. Returns nothing for other
/// tensors, and for masks of batches that are never unpadded: rows of more than
/// `kShortSequence` tokens, and very large batches.
ACCELERATE_API std::optional<TokenCounts> count_tokens(
    const at::Tensor& on_cpu);

/// Attaches the counts of its values to `tensor`. They exist as long as the
/// tensor, but are valid only until the tensor is modified. Does nothing if
/// LibTorch does not track modifications of the tensor (inference mode).
ACCELERATE_API void attach_token_counts(
    const at::Tensor& tensor, const TokenCounts& counts);

/// Returns the counts that were attached to `tensor`. Returns nothing if there
/// are none, or if the tensor has been modified since. Copies and views of the
/// tensor have no counts.
ACCELERATE_API std::optional<TokenCounts> token_counts_of(
    const at::Tensor& tensor);

}  // namespace accelerate
