// SPDX-License-Identifier: Apache-2.0
// Chooses and masks the tokens for masked language modeling.
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

/// Chooses tokens, masks them and makes the labels. Draws random numbers in the
/// same order as Hugging Face Transformers, so that generators with the same
/// state give the same masks. `special` is true for tokens that must never be
/// chosen.
MaskedTokens mask_tokens(
    const at::Tensor& input_ids,
    const at::Tensor& special,
    const CollatorTokens& tokens,
    const LanguageModelingOptions& options,
    const std::optional<at::Generator>& generator);

}  // namespace transformers
