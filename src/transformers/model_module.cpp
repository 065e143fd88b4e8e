// SPDX-License-Identifier: Apache-2.0
#include "transformers/model_module.h"

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "device/out_of_memory.h"
#include "transformers/gradient_checkpointing.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

constexpr std::int64_t kMaxLayers = 10'000;

}  // namespace

ModelModule::ModelModule(Config the_config) : config(std::move(the_config)) {
}

ModelResult ModelModule::forward(const ModelInputs& inputs) {
  const BatchLimits accepted = limits();
  try {
    return run_checked(checked_inputs(inputs, accepted, config.common()));
  } catch (const c10::Error& error) {
    // On devices other than the CPU, earlier work may have caused the error.
    if (!accepted.words_VD.is_cpu()) {
      throw;
    }
    const std::string text = error.what_without_backtrace();
    throw ArgumentError(str_cat(
        "the model cannot process the batch ",
        described(inputs),
        ": ",
        text.substr(0, text.find('\n'))));
  }
}

ModelResult ModelModule::run_checked(const ModelInputs& inputs) {
  const at::Tensor& first =
      inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  const c10::Device device =
      first.defined() ? first.device() : c10::Device(c10::kCPU);
  return accelerate::with_memory_errors(
      device, [&] { return with_autocast([&] { return compute(inputs); }); });
}

void ModelModule::set_autocast(
    std::optional<accelerate::AutocastPolicy> policy) {
  const BlockChoice choice = chosen_blocks(policy);
  apply([&](torch::nn::Module& module) {
    if (auto* const layer = dynamic_cast<Layer*>(&module)) {
      layer->choose_blocks(choice);
    }
  });
  AutocastModule::set_autocast(std::move(policy));
}

void Block::choose_blocks(const BlockChoice& choice) {
  Layer::choose_blocks(choice);
  support_ =
      choice.blocks != nullptr ? supported_by(*choice.blocks) : BlockSupport{};
}

bool Block::runs_fused(
    const at::Tensor& hidden_BTD, const LayerContext& context) const {
  return context.fused != nullptr && support_.block &&
         context.fused->supports_length(hidden_BTD.size(1));
}

at::Tensor Backbone::embed(const ModelInputs& inputs) const {
  return inputs.input_ids.defined() ? input_embeddings()(inputs.input_ids)
                                    : inputs.inputs_embeds;
}

at::Tensor Backbone::positions(const ModelInputs& inputs) {
  if (inputs.position_ids.defined()) {
    return inputs.position_ids;
  }
  const auto& like =
      inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds;
  return at::arange(
             inputs.tokens(),
             at::TensorOptions(at::kLong).device(like.device()))
      .unsqueeze(0);
}

LayerContext Backbone::layer_context(
    const ModelInputs& inputs,
    const at::Tensor& hidden_BTD,
    bool is_causal,
    ModelResult& result) const {
  LayerContext context;
  context.mask = attention_mask(inputs.attention_mask, hidden_BTD, is_causal);
  context.eager = eager_ || inputs.options.output_attentions;
  if (inputs.options.output_attentions) {
    context.attentions = &result.attentions;
  }
  if (!context.eager && hidden_BTD.numel() > 0) {
    context.fused = blocks_for(input_embeddings().weight_VD);
  }
  if (context.fused != nullptr && inputs.unpadded_rows == 0) {
    context.mask_bias = mask_bias(context.mask, hidden_BTD);
  }
  return context;
}

at::Tensor Backbone::run(
    const std::vector<std::shared_ptr<Block>>& blocks,
    at::Tensor hidden_BTD,
    const LayerContext& context,
    const ModelInputs& inputs,
    ModelResult& result) const {
  const bool recompute =
      gradient_checkpointing_ && is_training() && at::GradMode::is_enabled();
  for (const auto& block : blocks) {
    if (inputs.options.output_hidden_states) {
      result.hidden_states.push_back(hidden_BTD);
    }
    if (recompute) {
      // The recomputation must not append its attention weights again.
      auto without_outputs = context;
      hidden_BTD = checkpoint(
          [block, context, without_outputs, first = true](
              const at::Tensor& x) mutable {
            without_outputs.attentions = nullptr;
            return block->forward(
                x, std::exchange(first, false) ? context : without_outputs);
          },
          hidden_BTD);
    } else {
      hidden_BTD = block->forward(hidden_BTD, context);
    }
  }
  return hidden_BTD;
}

at::Tensor Backbone::run_encoder(
    const std::vector<std::shared_ptr<Block>>& blocks,
    const at::Tensor& hidden_BTD,
    const LayerContext& context,
    const ModelInputs& inputs,
    ModelResult& result) const {
  if (inputs.unpadded_rows == 0 || context.fused == nullptr) {
    return run(blocks, hidden_BTD, context, inputs, result);
  }
  const auto unpadded =
      context.fused->unpad(inputs.attention_mask, inputs.unpadded_rows);
  LayerContext inner = context;
  inner.mask = {};
  inner.sequence_offsets = unpadded.sequence_offsets;
  const auto rows_1ND = context.fused
                            ->take_rows(
                                hidden_BTD.flatten(0, 1),
                                unpadded.source_rows,
                                unpadded.packed_rows)
                            .unsqueeze(0);
  const auto out_1ND = run(blocks, rows_1ND, inner, inputs, result);
  return context.fused
      ->take_rows(
          out_1ND.squeeze(0), unpadded.packed_rows, unpadded.source_rows)
      .view(hidden_BTD.sizes());
}

void BlockList::check_count(std::int64_t count) {
  if (count < 0 || count > kMaxLayers) {
    throw ArgumentError(str_cat(
        "the number of layers in the config is ",
        count,
        ", but must be between 0 and ",
        kMaxLayers));
  }
}

void BlockList::check_size(std::int64_t count) const {
  double bytes = 0;
  for (const auto& parameter : blocks.front()->parameters()) {
    bytes += static_cast<double>(parameter.nbytes());
  }
  check_bytes(bytes * static_cast<double>(count), str_cat(count, " layers"));
}

std::int64_t width_of_head(std::int64_t width, std::int64_t heads) {
  if (heads < 1 || width < 1 || width % heads != 0) {
    throw ArgumentError(str_cat(
        "the hidden size ",
        width,
        " cannot be divided evenly among ",
        heads,
        " attention heads"));
  }
  return width / heads;
}

void refuse_extra(
    const PretrainedConfig& common,
    std::string_view key,
    const accelerate::Json& supported) {
  const accelerate::Json* value = common.extra.find(key);
  if (value != nullptr && !value->is_null() && !(*value == supported)) {
    throw accelerate::UnsupportedError(str_cat(
        "the config's `",
        key,
        "` is ",
        value->dump({.ensure_ascii = true, .allow_nan = true}),
        "; only ",
        supported.dump(),
        " is supported"));
  }
}

}  // namespace transformers
