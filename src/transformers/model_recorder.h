// SPDX-License-Identifier: Apache-2.0
// Captures the training steps of a model as CUDA graphs and replays them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "accelerate/recordable_module.h"
#include "device/differentiable_step.h"
#include "device/step_recorder.h"
#include "transformers/model_module.h"

namespace transformers {

/// Rounds `tokens`, the length of a batch's rows, up to one of a few lengths,
/// so that batches with different lengths can share a captured graph. Never
/// pads beyond `max_tokens`.
std::int64_t padded_length(std::int64_t tokens, std::int64_t max_tokens);

/// Returns the number of tokens that a mask keeps, rounded up to one of a few
/// sizes. Returns 0 if unpadding a batch of `padded_tokens` tokens would not be
/// faster, if the mask has no token counts (token_counts.h), or if the mask
/// hides the first token of a row.
std::int64_t unpadded_rows(
    const at::Tensor& mask_BT, std::int64_t padded_tokens);

/// Pads each row of `inputs` to `tokens` tokens. If `inputs` has a mask, the
/// mask hides the new tokens. If each token has a label, the loss ignores the
/// new tokens.
ModelInputs padded(
    const ModelInputs& inputs, std::int64_t tokens, const Padding& padding);

/// Captures and replays the forward and backward passes of a model that returns
/// a loss and logits.
class ModelRecorder {
 public:
  using Compute = std::function<ModelResult(const ModelInputs&)>;

  explicit ModelRecorder(
      const torch::nn::Module& model,
      const accelerate::RecordPolicy& policy = {.enabled = true});

  /// Replays the graph that was captured for inputs with the same `key`. If
  /// there is no such graph yet, calls `compute`, and may capture a graph.
  ModelResult run(
      const ModelInputs& inputs,
      const Padding& padding,
      const Compute& compute);

  /// Returns whether the policy allows captures. If not, reports the policy's
  /// `disabled_reason`, if there is one.
  bool is_enabled() { return recorder_.is_enabled(); }
  /// Reports why a step is not passed to `run`. Only the first reason is
  /// printed.
  void decline(const std::string& reason) { recorder_.decline(reason); }

  std::int64_t num_graphs() const { return recorder_.num_graphs(); }
  std::int64_t num_replays() const { return recorder_.num_replays(); }

 private:
  /// Returns a key for everything that a captured graph depends on, except the
  /// values of inputs and parameters.
  std::string key(const ModelInputs& inputs) const;

  std::vector<at::Tensor> parameters_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  accelerate::DifferentiableStep step_;
  accelerate::StepRecorder recorder_;
  // The fields that `run` sets.
  std::vector<at::Tensor ModelResult::*> returned_;
};

}  // namespace transformers
