// SPDX-License-Identifier: Apache-2.0
// AdamW, Adam and SGD that update all parameters of a group in one call.
//
//     accelerate::AdamW optimizer(model->parameters(), 3e-5);
//     accelerate::AdamW by_group(
//         {accelerate::param_group(weights, {.lr = 3e-5}),
//          accelerate::param_group(biases, {.lr = 3e-5, .weight_decay = 0})},
//         3e-5);
//
// Results and defaults are those of `torch::optim`'s classes of these names;
// `maximize` is ours. Each works alone, without an Accelerator.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include "accelerate/export.h"
#include "accelerate/optimizer_state.h"

namespace accelerate {

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool amsgrad = false;
  bool maximize = false;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool maximize = false;
};

/// The options of one parameter group, as LibTorch's optimizers keep them.
/// `values` may be changed between steps.
template <typename Values>
class ACCELERATE_API ParamGroupOptions : public torch::optim::OptimizerOptions {
 public:
  explicit ParamGroupOptions(const Values& initial) : values(initial) {}
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  double get_lr() const override { return values.lr; }
  void set_lr(const double lr) override { values.lr = lr; }

  Values values;
};
extern template class ParamGroupOptions<AdamWOptions>;
extern template class ParamGroupOptions<AdamOptions>;
extern template class ParamGroupOptions<SGDOptions>;

/// Parameters with options of their own. The options say everything: nothing
/// is taken from the optimizer's defaults.
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const AdamWOptions& options);
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const AdamOptions& options);
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const SGDOptions& options);

/// What AdamW and Adam keep for a parameter. `step` is one float, a view of
/// its group's counters; `max_exp_avg_sq` is undefined without amsgrad.
struct AdamParamState
    : torch::optim::OptimizerCloneableParamState<AdamParamState> {
  at::Tensor step;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;
};

/// What SGD with momentum keeps for a parameter.
struct SGDParamState
    : torch::optim::OptimizerCloneableParamState<SGDParamState> {
  at::Tensor momentum_buffer;
};

/// What our optimizers share.
///
/// A parameter without gradient is passed over, as in LibTorch. One that is
/// listed twice in a group (tied weights) counts once; in two groups it is an
/// `ArgumentError`. State is made at a parameter's first gradient.
///
/// Thread safety: one thread at a time.
class ACCELERATE_API FusedOptimizer : public torch::optim::Optimizer {
 public:
  /// Updates every parameter that has a gradient. A closure is called first,
  /// with gradients enabled, and its loss returned.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Tensors of a gradient scaler, one float each, read at each later step
  /// without waiting for the device. Either may be undefined.
  ///
  /// `grad_scale`: gradients are divided by it as part of the step.
  /// `found_inf`: when it is 1 the step changes nothing.
  void set_scale(const at::Tensor& grad_scale, const at::Tensor& found_inf);

  /// Learning rates of parameters on a device lie there, one float a group;
  /// this writes those that have changed. `step` does it by itself, except
  /// while the device records (`Accelerator::graph`): a recorded step reads
  /// what was written last.
  void refresh_lr();
  /// Of a group, for a schedule that only the device knows the position of: one
  /// float on its device, which steps use for as long as the group's `lr` stays
  /// as it is now. Undefined: the float stays, and the group's `lr` is taken to
  /// be the same.
  void set_device_lr(std::size_t group, const at::Tensor& rate);
  void set_recording(bool on) { recording_ = on; }

  /// The state by parameter name; see `optimizer_state`.
  OptimizerState state_dict(const std::vector<std::string>& names = {}) const;
  void load_state_dict(
      const OptimizerState& state, const std::vector<std::string>& names = {});

  /// LibTorch's archives throw `UnsupportedError`: use `state_dict`.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  FusedOptimizer(
      const std::vector<torch::optim::OptimizerParamGroup>& groups,
      std::unique_ptr<torch::optim::OptimizerOptions> defaults);

  virtual void step_group(std::size_t group) = 0;
  /// The learning rate of a group on `device`; undefined on the CPU.
  at::Tensor lr_on(std::size_t group, c10::Device device) const;

  at::Tensor grad_scale_;
  at::Tensor found_inf_;

 private:
  struct DeviceLr {
    double value = 0;
    at::Tensor tensor;
  };
  std::vector<DeviceLr> device_lr_;
  bool recording_ = false;
};

/// Adam with decoupled weight decay.
///
/// Throws `ArgumentError` for options out of range.
class ACCELERATE_API AdamW : public FusedOptimizer {
 public:
  AdamW(std::vector<at::Tensor> params, double lr);
  explicit AdamW(
      std::vector<at::Tensor> params, const AdamWOptions& options = {});
  /// `options` are for groups that come without their own.
  AdamW(
      const std::vector<torch::optim::OptimizerParamGroup>& groups, double lr);
  explicit AdamW(
      const std::vector<torch::optim::OptimizerParamGroup>& groups,
      const AdamWOptions& options = {});

 private:
  void step_group(std::size_t group) override;
};

/// Adam; its weight decay is added to the gradient.
///
/// Throws `ArgumentError` for options out of range.
class ACCELERATE_API Adam : public FusedOptimizer {
 public:
  Adam(std::vector<at::Tensor> params, double lr);
  explicit Adam(
      std::vector<at::Tensor> params, const AdamOptions& options = {});
  Adam(const std::vector<torch::optim::OptimizerParamGroup>& groups, double lr);
  explicit Adam(
      const std::vector<torch::optim::OptimizerParamGroup>& groups,
      const AdamOptions& options = {});

 private:
  void step_group(std::size_t group) override;
};

/// Gradient descent with optional momentum. Takes sparse gradients too, without
/// momentum and weight decay.
///
/// Throws `ArgumentError` for options out of range.
class ACCELERATE_API SGD : public FusedOptimizer {
 public:
  SGD(std::vector<at::Tensor> params, double lr);
  SGD(std::vector<at::Tensor> params, const SGDOptions& options);
  SGD(const std::vector<torch::optim::OptimizerParamGroup>& groups, double lr);
  SGD(const std::vector<torch::optim::OptimizerParamGroup>& groups,
      const SGDOptions& options);

 private:
  void step_group(std::size_t group) override;
};

}  // namespace accelerate
