// SPDX-License-Identifier: Apache-2.0
// Steps of a model that a GPU starts as a whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "device/recorded_calls.h"
#include "transformers/model_module.h"

namespace transformers {

/// Tokens that a batch of `tokens` is padded to, so that batches of any length
/// are of a few; not more than `most`.
std::int64_t padded_length(std::int64_t tokens, std::int64_t most);

/// Rows for the tokens that a mask leaves, so that batches have a few numbers
/// of them; 0 where a batch of `all` tokens is as well left as it is, where the
/// mask is not known without waiting for the device, or where it hides a first
/// token.
std::int64_t unpadded_rows(const at::Tensor& mask_BT, std::int64_t all);

/// `inputs` with `tokens` tokens, the new ones masked where there is a mask,
/// and without labels where each token has one.
ModelInputs padded(
    const ModelInputs& inputs, std::int64_t tokens, const Padding& padding);

/// Records forward and backward of a model whose result is a loss and logits.
class ModelRecorder {
 public:
  using Compute = std::function<ModelResult(const ModelInputs&)>;

  explicit ModelRecorder(const torch::nn::Module& model);

  /// What `compute` gives, from a recording where there is one.
  ModelResult run(
      const ModelInputs& inputs,
      const Padding& padding,
      const Compute& compute);

  const accelerate::RecordedCalls& calls() const { return calls_; }
  /// A step was not given to `run`: says why, once.
  void decline(const std::string& why) { calls_.decline(why); }

 private:
  /// What the result depends on besides inputs and the parameters' values.
  std::string key(const ModelInputs& inputs) const;

  std::vector<at::Tensor> parameters_;
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  accelerate::RecordedCalls calls_;
  std::vector<at::Tensor ModelResult::*> returned_;  // what `run` gives back
};

}  // namespace transformers
