// SPDX-License-Identifier: Apache-2.0
// Base classes for the modules of all architectures.
//
// Shapes: B batch, T tokens, D width, H heads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "accelerate/autocast_module.h"
#include "accelerate/tensor_map.h"
#include "transformers/attention.h"
#include "transformers/batch_checks.h"
#include "transformers/configuration.h"
#include "transformers/fused.h"
#include "transformers/layers.h"
#include "transformers/model_inputs.h"
#include "transformers/modeling.h"
#include "transformers/typed_config.h"

namespace transformers {

/// How rows may be padded without changing the result.
struct Padding {
  /// Maximum length of a row. If 0, rows are not padded.
  std::int64_t max_tokens = 0;
  std::int64_t id = 0;  ///< The id of padding tokens.
  /// Whether only the result for the first token of each row is used, so that
  /// layers may skip the padding.
  bool can_unpad = false;
  /// Whether tokens cannot attend to later tokens, so that padding needs no
  /// mask.
  bool is_causal = false;
  /// Whether each token has a label and a result.
  bool per_token = false;
};

/// The output of any model. Each head sets only its own fields.
struct ModelResult {
  at::Tensor loss;
  at::Tensor logits;
  at::Tensor start_logits;
  at::Tensor end_logits;
  at::Tensor last_hidden_state;
  at::Tensor pooler_output;
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
  /// Set if the loss was computed without logits: the tensor from which the
  /// logits can be computed, in the type that the layers returned. `logits` is
  /// then undefined.
  at::Tensor before_logits;
};

template <typename F>
void for_each_tensor(ModelResult& result, F f) {
  f(result.loss);
  f(result.logits);
  f(result.start_logits);
  f(result.end_logits);
  f(result.last_hidden_state);
  f(result.pooler_output);
  f(result.hidden_states);
  f(result.attentions);
}

/// A complete model. Its weights are uninitialized at first; see `Initializer`.
class ModelModule : public Layer, public accelerate::AutocastModule {
 public:
  explicit ModelModule(Config config);

  /// Checks the batch, calls `compute` in the precision of the autocast policy
  /// and returns the result in fp32. Throws `ArgumentError` if the model cannot
  /// process the batch.
  ModelResult forward(const ModelInputs& inputs);
  virtual ModelResult compute(const ModelInputs& inputs) = 0;
  /// Returns the limits that `checked_inputs` enforces.
  virtual BatchLimits limits() const = 0;

  /// Sets the policy, and chooses the implementation of all layers.
  void set_autocast(std::optional<accelerate::AutocastPolicy> policy) override;

  /// Returns the standard deviation of random weights, from the config.
  virtual double initializer_range() const = 0;
  /// Returns the name under which heads register their backbone.
  virtual std::string base_model_prefix() const = 0;
  /// Maps the name of a head's weight to the name of the parameter that the
  /// config may tie it to.
  virtual std::map<std::string, std::string> tied_names() const { return {}; }
  virtual void set_gradient_checkpointing(bool on) = 0;
  virtual void set_eager_attention(bool on) = 0;
  virtual std::int64_t recorded_steps() const { return 0; }

  Config config;
  LoadingReport report;

 protected:
  /// Runs the model on a checked batch.
  virtual ModelResult run_checked(const ModelInputs& inputs);
};

/// The data about the current forward pass that the layers need.
struct LayerContext {
  AttentionMask mask;
  bool eager = false;
  std::vector<at::Tensor>* attentions = nullptr;
  at::Tensor cos_B1TD;
  at::Tensor sin_B1TD;
  /// The chosen fused blocks. Null if this call uses the reference path.
  const accelerate::FusedBlocks* fused = nullptr;
  at::Tensor mask_bias;  ///< The mask as a bias, for `fused`.
  /// The offset of the first token of each sequence in an unpadded batch, for
  /// `fused`.
  at::Tensor sequence_offsets;

  AttentionOptions attention(double dropout, double scale) const {
    return {
        .dropout = dropout,
        .scale = scale,
        .eager = eager,
        .weights = attentions};
  }
};

/// Whether fused blocks support a block of a model.
struct BlockSupport {
  bool block = false;  ///< Whether there is a fused block.
  /// Whether the fused block accepts an unpadded batch.
  bool unpadding = false;
};

/// One of the repeated layers in a model.
class Block : public Layer {
 public:
  virtual at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) = 0;

  void choose_blocks(const BlockChoice& choice) override;
  /// Returns whether the chosen implementation accepts an unpadded batch.
  bool can_unpad() const { return support_.block && support_.unpadding; }

 protected:
  /// Returns which features of this block are supported by `blocks`. Called
  /// once, in `prepare`.
  virtual BlockSupport supported_by(
      const accelerate::FusedBlocks& blocks) const = 0;
  /// Returns whether a call runs as a fused block.
  bool runs_fused(
      const at::Tensor& hidden_BTD, const LayerContext& context) const;

 private:
  BlockSupport support_;
};

/// A model without a head, also used as the base of models with heads.
class Backbone : public ModelModule {
 public:
  using ModelModule::ModelModule;

  virtual const Embedding& input_embeddings() const = 0;
  virtual std::int64_t width() const = 0;
  /// Returns how rows may be padded if the head ignores padding tokens.
  virtual Padding padding() const { return {}; }
  /// Returns whether the chosen blocks may skip padding.
  virtual bool can_unpad() const { return false; }
  void set_gradient_checkpointing(bool on) override {
    gradient_checkpointing_ = on;
  }
  void set_eager_attention(bool on) override { eager_ = on; }
  /// Returns `position_ids` if it is defined, otherwise 0, 1, 2, … as a tensor
  /// [1, T].
  static at::Tensor positions(const ModelInputs& inputs);

 protected:
  /// Returns `inputs_embeds` if it is defined; otherwise looks up `input_ids`
  /// in the embedding table.
  at::Tensor embed(const ModelInputs& inputs) const;
  LayerContext layer_context(
      const ModelInputs& inputs,
      const at::Tensor& hidden_BTD,
      bool is_causal,
      ModelResult& result) const;
  /// Runs the blocks one after the other and stores the requested outputs.
  at::Tensor run(
      const std::vector<std::shared_ptr<Block>>& blocks,
      at::Tensor hidden_BTD,
      const LayerContext& context,
      const ModelInputs& inputs,
      ModelResult& result) const;
  /// Runs the blocks. Removes the padding first if `inputs.unpadded_rows` is
  /// not 0.
  at::Tensor run_encoder(
      const std::vector<std::shared_ptr<Block>>& blocks,
      const at::Tensor& hidden_BTD,
      const LayerContext& context,
      const ModelInputs& inputs,
      ModelResult& result) const;

 private:
  bool gradient_checkpointing_ = false;
  bool eager_ = false;
};

/// A list of blocks named 0, 1, 2, …, as in PyTorch's ModuleList.
class BlockList : public torch::nn::Module {
 public:
  template <typename Make>
  BlockList(std::int64_t count, Make make) {
    check_count(count);
    for (std::int64_t i = 0; i < count; ++i) {
      blocks.push_back(register_module(std::to_string(i), make(i)));
      if (i == 0) {
        check_size(count);
      }
    }
  }
  /// Returns whether the chosen implementation of the blocks accepts an
  /// unpadded batch.
  bool can_unpad() const {
    return !blocks.empty() && blocks.front()->can_unpad();
  }
  std::vector<std::shared_ptr<Block>> blocks;

 private:
  static void check_count(std::int64_t count);
  // Calls `check_bytes` with the size of `count` blocks like the first one.
  void check_size(std::int64_t count) const;
};

/// Returns the width of one head. Throws `ArgumentError` unless `heads` divides
/// `width`.
std::int64_t width_of_head(std::int64_t width, std::int64_t heads);

/// Rejects a config field that this library implements only for the value
/// `supported`: throws `UnsupportedError` if the config sets `key` to a
/// different value.
void refuse_extra(
    const PretrainedConfig& common,
    std::string_view key,
    const accelerate::Json& supported);

}  // namespace transformers
