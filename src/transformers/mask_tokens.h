// SPDX-License-Identifier: Apache-2.0
// The choice of tokens for masked language modeling.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "transformers/data_collator.h"

namespace transformers {

struct MaskedTokens {
  at::Tensor input_ids;
  at::Tensor labels;
};

/// Draws as the peer does, in the same order, so that equal generators give
/// equal masks. `special` is true for tokens that are never chosen.
MaskedTokens mask_tokens(
    const at::Tensor& input_ids,
    const at::Tensor& special,
    const CollatorTokens& tokens,
    const LanguageModelingOptions& options,
    const std::optional<at::Generator>& generator);

}  // namespace transformers
