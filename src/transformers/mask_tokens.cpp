// SPDX-License-Identifier: Apache-2.0
#include "transformers/mask_tokens.h"

#include <ATen/ops/bernoulli.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randint.h>

namespace transformers {
namespace {

at::Tensor draw(
    const at::Tensor& like,
    double probability,
    const std::optional<at::Generator>& generator) {
  return at::bernoulli(
             at::full_like(
                 like, probability, at::TensorOptions().dtype(at::kFloat)),
             generator)
      .to(at::kBool);
}

}  // namespace

MaskedTokens mask_tokens(
    const at::Tensor& input_ids,
    const at::Tensor& special,
    const CollatorTokens& tokens,
    const LanguageModelingOptions& options,
    const std::optional<at::Generator>& generator) {
  const auto probability = at::full_like(
                               input_ids,
                               options.mlm_probability,
                               at::TensorOptions().dtype(at::kFloat))
                               .masked_fill(special, 0.0);
  const auto chosen = at::bernoulli(probability, generator).to(at::kBool);
  const auto labels = input_ids.masked_fill(chosen.logical_not(), -100);
  const auto masked =
      draw(labels, options.mask_replace_prob, generator).logical_and(chosen);
  auto inputs = input_ids.masked_fill(masked, tokens.mask_token_id.value_or(0));
  if (options.mask_replace_prob == 1 || options.random_replace_prob == 0) {
    return {inputs, labels};
  }
  // `random_replace_prob` as a fraction of the chosen tokens that were not
  // masked.
  const double fraction =
      options.random_replace_prob / (1 - options.mask_replace_prob);
  const auto replaced = draw(labels, fraction, generator)
                            .logical_and(chosen)
                            .logical_and(masked.logical_not());
  const auto random_tokens = at::randint(
      tokens.vocab_size,
      labels.sizes(),
      generator,
      at::TensorOptions().dtype(at::kLong));
  return {random_tokens.where(replaced, inputs), labels};
}

}  // namespace transformers
