// SPDX-License-Identifier: Apache-2.0
// Facts about the values of a tensor on a device, known without waiting for the
// device: how many real tokens a mask has, and the range of the integers in a
// tensor.
//
// A data loader has each batch in CPU memory before it copies the batch to the
// device. The loader reads the values in CPU memory and attaches the facts to
// the tensor on the device. Models read the facts from the batch; programs do
// not have to do anything.
#pragma once

#include <cstdint>
#include <limits>
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

/// Attaches `counts`, the token counts of a mask, to the mask `tensor`. The
/// counts exist as long as the tensor, but are valid only until the tensor is
/// modified. Does nothing if LibTorch does not track modifications of the
/// tensor (inference mode).
ACCELERATE_API void attach_token_counts(
    const at::Tensor& tensor, const TokenCounts& counts);

/// Returns the counts that were attached to `tensor`. Returns nothing if there
/// are none, or if the tensor has been modified since. Copies and views of the
/// tensor have no counts.
ACCELERATE_API std::optional<TokenCounts> token_counts_of(
    const at::Tensor& tensor);

/// The smallest and the largest of the integers in a tensor, apart from -100,
/// the label that losses ignore. If there are no such integers, `max` is less
/// than `min`.
struct ValueRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::max();
  std::int64_t max = std::numeric_limits<std::int64_t>::min();
  bool has_ignored = false;  ///< Whether -100 is one of the values.
};

/// Returns the range of the values in a tensor of integers in CPU memory.
/// Returns nothing for other tensors.
ACCELERATE_API std::optional<ValueRange> find_range(const at::Tensor& on_cpu);

/// Like `attach_token_counts`, but attaches the range of the tensor's values.
ACCELERATE_API void attach_range(
    const at::Tensor& tensor, const ValueRange& range);

/// Returns the range of a tensor in CPU memory, or the range that was attached
/// to a tensor on a device; see `token_counts_of`.
ACCELERATE_API std::optional<ValueRange> known_range(const at::Tensor& tensor);

/// Attaches the token counts and the range of `on_cpu` to `copy`, which is a
/// copy of `on_cpu` on a device.
ACCELERATE_API void attach_facts(
    const at::Tensor& copy, const at::Tensor& on_cpu);

}  // namespace accelerate
