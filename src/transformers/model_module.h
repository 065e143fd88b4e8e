// SPDX-License-Identifier: Apache-2.0
// What the modules of all architectures have in common.
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
#include "transformers/configuration.h"
#include "transformers/fused.h"
#include "transformers/layers.h"
#include "transformers/modeling.h"
#include "transformers/typed_config.h"

namespace transformers {

/// A batch, by name; what is not there is undefined.
struct ModelInputs {
  at::Tensor input_ids;
  at::Tensor inputs_embeds;
  at::Tensor attention_mask;
  at::Tensor token_type_ids;
  at::Tensor position_ids;
  at::Tensor labels;
  at::Tensor start_positions;
  at::Tensor end_positions;
  CallOptions options;
  /// Rows that hold all tokens which `attention_mask` leaves; 0: layers work
  /// on the batch as it is. Only the first token's result is then wanted.
  std::int64_t unpadded_rows = 0;

  std::int64_t batch() const;
  std::int64_t tokens() const;
};

/// Throws `ArgumentError` for an unknown name, and unless there is exactly one
/// of `input_ids` and `inputs_embeds`.
ModelInputs model_inputs(
    const accelerate::TensorMap& tensors, const CallOptions& options);

/// How rows may be made longer without a change of the result.
struct Padding {
  std::int64_t most_tokens = 0;  ///< 0: they may not.
  std::int64_t id = 0;           ///< What the new tokens are.
  /// Whether only the first token's result counts, so that layers may leave
  /// padding out.
  bool can_unpad = false;
  /// Whether no token sees those after it: rows then need no mask.
  bool is_causal = false;
  /// Whether each token has a label and a result.
  bool of_tokens = false;
};

/// What any model computes; a head leaves undefined what is not its own.
struct ModelResult {
  at::Tensor loss;
  at::Tensor logits;
  at::Tensor start_logits;
  at::Tensor end_logits;
  at::Tensor last_hidden_state;
  at::Tensor pooler_output;
  std::vector<at::Tensor> hidden_states;
  std::vector<at::Tensor> attentions;
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

/// A whole model. Made with empty weights; see `Initializer`.
class ModelModule : public Layer, public accelerate::AutocastModule {
 public:
  explicit ModelModule(Config config);

  /// `compute` in the precision it was given, with results in fp32.
  virtual ModelResult forward(const ModelInputs& inputs);
  virtual ModelResult compute(const ModelInputs& inputs) = 0;

  /// The config's standard deviation for weights.
  virtual double initializer_range() const = 0;
  /// The name under which heads hold the part without a head.
  virtual std::string base_model_prefix() const = 0;
  /// Names in files that are another of this model's parameters.
  virtual std::map<std::string, std::string> tied_names() const { return {}; }
  virtual void set_gradient_checkpointing(bool on) = 0;
  virtual void set_eager_attention(bool on) = 0;
  virtual std::int64_t recorded_steps() const { return 0; }

  Config config;
  LoadingReport report;
};

/// What a layer needs to know of the forward it is in.
struct LayerContext {
  AttentionMask mask;
  bool eager = false;
  std::vector<at::Tensor>* attentions = nullptr;
  at::Tensor cos_B1TD;
  at::Tensor sin_B1TD;
  /// Computes whole blocks; null: the blocks do it themselves.
  const accelerate::FusedBlocks* fused = nullptr;
  at::Tensor mask_bias;  ///< For it.
  at::Tensor starts;     ///< The same: the batch has no padding.

  AttentionOptions attention(double dropout, double scale) const {
    return {
        .dropout = dropout,
        .scale = scale,
        .eager = eager,
        .weights = attentions};
  }
};

/// One of the equal layers of a model.
class Block : public Layer {
 public:
  virtual at::Tensor forward(
      const at::Tensor& hidden_BTD, const LayerContext& context) = 0;
};

/// The part of a model that heads stand on, and a model of its own.
class Backbone : public ModelModule {
 public:
  using ModelModule::ModelModule;

  virtual const Embedding& input_embeddings() const = 0;
  virtual std::int64_t width() const = 0;
  /// How a head whose result does not look at new tokens may pad rows.
  virtual Padding padding() const { return {}; }
  void set_gradient_checkpointing(bool on) override { checkpointing_ = on; }
  void set_eager_attention(bool on) override { eager_ = on; }

 protected:
  /// The ids' rows of the table, or the embeddings that were given.
  at::Tensor embed(const ModelInputs& inputs) const;
  /// `position_ids`, or 0, 1, 2, … as [1, T].
  static at::Tensor positions(const ModelInputs& inputs);
  LayerContext layer_context(
      const ModelInputs& inputs,
      const at::Tensor& hidden_BTD,
      bool is_causal,
      ModelResult& result) const;
  /// Hands `hidden_BTD` from layer to layer and notes what was asked for.
  at::Tensor run(
      const std::vector<std::shared_ptr<Block>>& blocks,
      at::Tensor hidden_BTD,
      const LayerContext& context,
      const ModelInputs& inputs,
      ModelResult& result) const;
  /// The same, without padding where `inputs` ask for that.
  at::Tensor run_encoder(
      const std::vector<std::shared_ptr<Block>>& blocks,
      const at::Tensor& hidden_BTD,
      const LayerContext& context,
      const ModelInputs& inputs,
      ModelResult& result) const;

 private:
  bool checkpointing_ = false;
  bool eager_ = false;
};

/// Layers under the names 0, 1, 2, …, as Python's ModuleList has them.
class BlockList : public torch::nn::Module {
 public:
  template <typename Make>
  BlockList(std::int64_t count, Make make) {
    check_count(count);
    for (std::int64_t i = 0; i < count; ++i) {
      blocks.push_back(register_module(std::to_string(i), make(i)));
    }
  }
  std::vector<std::shared_ptr<Block>> blocks;

 private:
  static void check_count(std::int64_t count);
};

/// Throws `ArgumentError` unless `heads` divide `width`; returns the width of
/// one.
std::int64_t width_of_head(std::int64_t width, std::int64_t heads);

/// Throws `UnsupportedError` when a key that changes the computation has
/// another value than the one that is computed here.
void refuse_extra(
    const PretrainedConfig& common,
    std::string_view key,
    const accelerate::Json& inert);

}  // namespace transformers
