// SPDX-License-Identifier: Apache-2.0
// The layers that models are made of, under Hugging Face's parameter names.
//
// LibTorch's own draw random weights when they are made. Here a layer is made
// empty, because most are filled from a file: an `Initializer` draws for those
// that are not.
//
// Shapes: B batch, T tokens, D width in, E width out, V rows of a table.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>

#include <torch/nn/module.h>

namespace transformers {

/// Fills parameters as the peer does, but for those that came from a file.
class Initializer {
 public:
  using Loaded = std::unordered_set<const c10::TensorImpl*>;
  Initializer(double std, const Loaded& loaded) : std_(std), loaded_(loaded) {}

  double std() const { return std_; }
  void normal(const at::Tensor& parameter) const { normal(parameter, std_); }
  void normal(const at::Tensor& parameter, double std) const;
  void fill(const at::Tensor& parameter, double value) const;
  void copy(const at::Tensor& parameter, const at::Tensor& values) const;
  bool wants(const at::Tensor& parameter) const;

 private:
  double std_;
  const Loaded& loaded_;
};

/// A module with parameters, or rules for those of its parts.
class Layer : public torch::nn::Module {
 public:
  /// Fills the parameters that are directly its own.
  virtual void initialize(const Initializer&) {}
};

/// x W^T + b.
class Linear : public Layer {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true);
  at::Tensor operator()(const at::Tensor& x_BTD) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_ED;
  at::Tensor bias_E;
};

/// GPT-2's linear layer, whose weight lies the other way round.
class Conv1D : public Layer {
 public:
  Conv1D(std::int64_t out, std::int64_t in);
  at::Tensor operator()(const at::Tensor& x_BTD) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_DE;
  at::Tensor bias_E;
};

class Embedding : public Layer {
 public:
  Embedding(
      std::int64_t rows,
      std::int64_t width,
      std::optional<std::int64_t> padding_idx = std::nullopt);
  at::Tensor operator()(const at::Tensor& ids_BT) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_VD;

 private:
  std::int64_t padding_idx_;
};

class LayerNorm : public Layer {
 public:
  LayerNorm(std::int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x_BTD) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_D;
  at::Tensor bias_D;

 private:
  double eps_;
};

class RmsNorm : public Layer {
 public:
  RmsNorm(std::int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x_BTD) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_D;

 private:
  double eps_;
};

/// Initialises every layer below `module`, outermost last, so that a rule for
/// the parts of a block has the last word.
void initialize_all(torch::nn::Module& module, const Initializer& init);

/// Dropout while `module` trains.
at::Tensor dropout(
    const at::Tensor& x, double rate, const torch::nn::Module& module);

}  // namespace transformers
