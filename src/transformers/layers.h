// SPDX-License-Identifier: Apache-2.0
// The layers that models consist of. Parameters have the same names as in
// Hugging Face Transformers.
//
// LibTorch's layers initialize their weights when they are created. These
// layers leave the weights uninitialized, because most weights are loaded from
// a file. An `Initializer` initializes the remaining weights.
//
// Shapes: B batch, T tokens, D input width, E output width, V rows of an
// embedding table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

#include <torch/nn/module.h>

namespace accelerate {
struct FusedBlocks;
}

namespace transformers {

/// Initializes parameters as Hugging Face Transformers does. Skips parameters
/// that were loaded from a file.
class Initializer {
 public:
  using Loaded = std::unordered_set<const c10::TensorImpl*>;
  Initializer(double std, const Loaded& loaded) : std_(std), loaded_(loaded) {}

  double std() const { return std_; }
  void normal(const at::Tensor& parameter) const { normal(parameter, std_); }
  void normal(const at::Tensor& parameter, double std) const;
  void fill(const at::Tensor& parameter, double value) const;
  void copy(const at::Tensor& parameter, const at::Tensor& values) const;
  bool must_initialize(const at::Tensor& parameter) const;

 private:
  double std_;
  const Loaded& loaded_;
};

/// Throws `OutOfMemoryError` if `bytes`, the size of the weights of a part of a
/// model, is several times this machine's memory. `part` names the part in the
/// error. Called before the allocation, because configs are untrusted.
void check_bytes(double bytes, const std::string& part);

/// The implementation of layers and blocks that was chosen for a model.
struct BlockChoice {
  /// Null for the reference path, that is, the layers' own LibTorch code.
  const accelerate::FusedBlocks* blocks = nullptr;
  /// The type of the devices that `blocks` work on.
  c10::DeviceType device = c10::DeviceType::CPU;
};

/// A module with its own rules for initialization, and with a choice of
/// implementations. A layer uses the reference path until `choose_blocks` is
/// called.
class Layer : public torch::nn::Module {
 public:
  /// Initializes the layer's own parameters.
  virtual void initialize(const Initializer&) {}

  /// Chooses the implementation of this layer, but not of its submodules.
  /// Called once for each layer of a model, in `prepare`; see
  /// `ModelModule::set_autocast`.
  virtual void choose_blocks(const BlockChoice& choice) { choice_ = choice; }
  /// Returns the fused blocks for tensors on `device`. Returns null if the
  /// layer uses the reference path, or if `device` is not of the type that was
  /// chosen in `prepare`.
  const accelerate::FusedBlocks* blocks_on(c10::Device device) const {
    return device.type() == choice_.device ? choice_.blocks : nullptr;
  }
  /// Returns the fused blocks for `parameter`. Returns null if the layer uses
  /// the reference path, if the parameter is not on a device of the type that
  /// was chosen in `prepare`, or if the parameter is not fp32.
  const accelerate::FusedBlocks* blocks_for(const at::Tensor& parameter) const;

 private:
  BlockChoice choice_;
};

/// Computes x W^T + b.
class Linear : public Layer {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true);
  at::Tensor operator()(const at::Tensor& x_BTD) const;
  void initialize(const Initializer& init) override;

  at::Tensor weight_ED;
  at::Tensor bias_E;
};

/// GPT-2's linear layer, which stores its weight transposed.
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

/// Initializes every layer in `module`, children first, so that a block's rule
/// overrides its children's rules.
void initialize_all(torch::nn::Module& module, const Initializer& init);

/// Applies dropout if `layer` is in training mode.
at::Tensor dropout(const at::Tensor& x, double rate, const Layer& layer);

}  // namespace transformers
