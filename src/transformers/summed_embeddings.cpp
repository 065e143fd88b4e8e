// SPDX-License-Identifier: Apache-2.0
#include "transformers/summed_embeddings.h"

#include <torch/types.h>

#include "device/fused_blocks.h"
#include "transformers/model_module.h"

namespace transformers {
namespace {

// The sine of the position in even channels, the cosine in odd ones.
at::Tensor sinusoids_VD(std::int64_t rows, std::int64_t width) {
  const auto channel_D =
      at::arange(width, at::kDouble).div(2, "floor").mul(2.0 / double(width));
  const auto angles_VD =
      at::arange(rows, at::kDouble).unsqueeze(1) / at::pow(10000.0, channel_D);
  const auto is_even_D = at::arange(width).remainder(2).eq(0);
  return at::where(is_even_D, angles_VD.sin(), angles_VD.cos());
}

}  // namespace

// Registers the layers in the order of Hugging Face Transformers, because an
// optimizer's state lists the parameters in this order.
SummedEmbeddings::SummedEmbeddings(const Options& options) : options_(options) {
  const auto add_positions = [&](std::optional<std::int64_t> padding_id) {
    positions_ = register_module(
        "position_embeddings",
        std::make_shared<Embedding>(
            options.positions, options.width, padding_id));
  };
  words = register_module(
      "word_embeddings",
      std::make_shared<Embedding>(
          options.words, options.width, options.padding_id));
  if (!options.skips_padding) {
    add_positions(std::nullopt);
  }
  if (options.types > 0) {
    types_ = register_module(
        "token_type_embeddings",
        std::make_shared<Embedding>(options.types, options.width));
  }
  norm_ = register_module(
      "LayerNorm",
      std::make_shared<LayerNorm>(options.width, options.norm_eps));
  if (options.skips_padding) {
    add_positions(options.padding_id);
  }
}

void SummedEmbeddings::initialize(const Initializer& init) {
  if (options_.sinusoidal) {
    init.copy(
        positions_->weight_VD,
        sinusoids_VD(options_.positions, options_.width));
  }
}

at::Tensor SummedEmbeddings::operator()(const ModelInputs& inputs) const {
  const at::Tensor position_ids = position_ids_BT(inputs);
  if (const auto result = fused(inputs, position_ids); result.defined()) {
    return result;
  }
  const auto words_BTD = inputs.input_ids.defined() ? (*words)(inputs.input_ids)
                                                    : inputs.inputs_embeds;
  const auto positions_BTD = (*positions_)(
      position_ids.defined() ? position_ids : Backbone::positions(inputs));
  at::Tensor types_BTD;
  if (types_) {
    // Without type ids, every token has type 0.
    types_BTD = inputs.token_type_ids.defined()
                    ? (*types_)(inputs.token_type_ids)
                    : types_->weight_VD.select(0, 0);
  }
  // In bf16, the two small tensors are added first, so that the batch is read
  // only once.
  at::Tensor sum_BTD = words_BTD;
  if (words_BTD.scalar_type() == at::kBFloat16) {
    sum_BTD = words_BTD +
              (types_BTD.defined() ? types_BTD + positions_BTD : positions_BTD)
                  .to(at::kBFloat16);
  } else {
    sum_BTD = (types_BTD.defined() ? words_BTD + types_BTD : words_BTD) +
              positions_BTD;
  }
  return dropout((*norm_)(sum_BTD), options_.dropout, *this);
}

at::Tensor SummedEmbeddings::position_ids_BT(const ModelInputs& inputs) const {
  if (inputs.position_ids.defined() || !options_.skips_padding) {
    return inputs.position_ids;
  }
  const std::int64_t padding = options_.padding_id.value_or(0);
  if (!inputs.input_ids.defined()) {
    return Backbone::positions(inputs) + (padding + 1);
  }
  const auto real_BT = inputs.input_ids.ne(padding).to(at::kLong);
  return real_BT.cumsum(1) * real_BT + padding;
}

at::Tensor SummedEmbeddings::fused(
    const ModelInputs& inputs, const at::Tensor& position_ids) const {
  const auto* const blocks = blocks_for(words->weight_VD);
  if (blocks == nullptr || !inputs.input_ids.defined()) {
    return {};
  }
  const auto as_ids = [&](const at::Tensor& ids) {
    return ids.defined() ? ids.to(at::kLong).expand_as(inputs.input_ids) : ids;
  };
  const std::int64_t padding_id = options_.padding_id.value_or(-1);
  return blocks->summed_embedding(
      {.words = words->weight_VD,
       .positions = positions_->weight_VD,
       .types = types_ ? types_->weight_VD : at::Tensor(),
       .weight = norm_->weight_D,
       .shift = norm_->bias_D,
       .ids = inputs.input_ids.to(at::kLong),
       .position_ids = as_ids(position_ids),
       .type_ids = types_ ? as_ids(inputs.token_type_ids) : at::Tensor(),
       .padding_id = padding_id,
       .padding_position = options_.skips_padding ? padding_id : -1,
       .eps = options_.norm_eps,
       .dropout = is_training() ? options_.dropout : 0.0});
}

}  // namespace transformers
