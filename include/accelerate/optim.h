// SPDX-License-Identifier: Apache-2.0
// The optimizers AdamW, Adam and SGD. Each step updates all parameters of a
// parameter group in one call.
//
//     accelerate::AdamW optimizer(model->parameters(), 3e-5);
//     accelerate::AdamW by_group(
//         {accelerate::param_group(weights, {.lr = 3e-5}),
//          accelerate::param_group(biases, {.lr = 3e-5, .weight_decay = 0})},
//         3e-5);
//
// Results and defaults match the classes of the same name in `torch::optim`,
// which lack the option `maximize`. The optimizers also work without an
// Accelerator.
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

/// The options of one parameter group, as LibTorch's optimizers store them. The
/// program may change `values` between steps.
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

/// Makes a parameter group with its own options. Fields that are left out of
/// `options` have the defaults of the struct, not the values that were passed
/// to the optimizer.
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const AdamWOptions& options);
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const AdamOptions& options);
ACCELERATE_API torch::optim::OptimizerParamGroup param_group(
    std::vector<at::Tensor> params, const SGDOptions& options);

/// The state of AdamW and Adam for one parameter. `step` is one float: a view
/// into a tensor with the step counts of many parameters. `max_exp_avg_sq` is
/// undefined without amsgrad.
struct AdamParamState
    : torch::optim::OptimizerCloneableParamState<AdamParamState> {
  at::Tensor step;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;
};

/// The state of SGD with momentum for one parameter.
struct SGDParamState
    : torch::optim::OptimizerCloneableParamState<SGDParamState> {
  at::Tensor momentum_buffer;
};

/// The base class of AdamW, Adam and SGD.
///
/// A parameter without a gradient is skipped, as in LibTorch. A parameter that
/// is listed twice in a parameter group (tied weights) is updated once; a
/// parameter in two groups is an error (`ArgumentError`). The state of a
/// parameter is created in the first step in which the parameter has a
/// gradient.
///
/// Thread safety: use an optimizer from only one thread at a time.
class ACCELERATE_API FusedOptimizer : public torch::optim::Optimizer {
 public:
  /// Updates every parameter that has a gradient. If a closure is passed,
  /// `step` first calls it with gradients enabled, and returns its loss.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Passes the gradient scaler's tensors, each with one float, to the
  /// optimizer. Later steps read the tensors without waiting for the device.
  /// Either tensor may be undefined.
  ///
  /// Each step divides the gradients by `grad_scale`. If `found_inf` is 1, the
  /// step changes nothing.
  void set_scale(const at::Tensor& grad_scale, const at::Tensor& found_inf);

  /// Copies changed learning rates to the device, which stores one float per
  /// parameter group. `step` does this itself, except while a CUDA graph is
  /// being captured (`Accelerator::graph`). A replayed step reads the values
  /// that were copied last.
  void refresh_lr();
  /// Sets the learning rate of a parameter group to `rate`, a tensor with one
  /// float on the device of the group's parameters, for a schedule whose
  /// position is known only on the device. Steps use `rate` until the group's
  /// `lr` changes. If `rate` is undefined, keeps the value that is already on
  /// the device and assumes that it equals the group's `lr`.
  void set_device_lr(std::size_t group, const at::Tensor& rate);
  /// Sets whether a CUDA graph is being captured; see `refresh_lr`.
  void set_capturing(bool on) { capturing_ = on; }

  /// Returns the state by parameter name; see `optimizer_state`.
  OptimizerState state_dict(const std::vector<std::string>& names = {}) const;
  void load_state_dict(
      const OptimizerState& state, const std::vector<std::string>& names = {});

  /// Not supported: `save` and `load` throw `UnsupportedError`. Use
  /// `state_dict` and `load_state_dict`.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  FusedOptimizer(
      const std::vector<torch::optim::OptimizerParamGroup>& groups,
      std::unique_ptr<torch::optim::OptimizerOptions> defaults);

  virtual void step_group(std::size_t group) = 0;
  /// Returns a parameter group's learning rate as a tensor on `device`;
  /// undefined if `device` is the CPU.
  at::Tensor lr_on(std::size_t group, c10::Device device) const;

  at::Tensor grad_scale_;
  at::Tensor found_inf_;

 private:
  struct DeviceLr {
    double value = 0;
    at::Tensor tensor;
  };
  std::vector<DeviceLr> device_lr_;
  bool capturing_ = false;
};

/// Adam with decoupled weight decay.
///
/// Throws `ArgumentError` for options out of range.
class ACCELERATE_API AdamW : public FusedOptimizer {
 public:
  AdamW(std::vector<at::Tensor> params, double lr);
  explicit AdamW(
      std::vector<at::Tensor> params, const AdamWOptions& options = {});
  /// `lr` and `options` apply to parameter groups without their own options.
  AdamW(
      const std::vector<torch::optim::OptimizerParamGroup>& groups, double lr);
  explicit AdamW(
      const std::vector<torch::optim::OptimizerParamGroup>& groups,
      const AdamWOptions& options = {});

 private:
  void step_group(std::size_t group) override;
};

/// Adam, with the weight decay added to the gradient.
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

/// Gradient descent with optional momentum. Without momentum and weight decay,
/// sparse gradients are accepted, too.
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
