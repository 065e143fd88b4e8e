// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "device/out_of_memory.h"
#include "optim/param_group_options.h"

namespace accelerate {
namespace {

[[noreturn]] void refuse_archive(const char* function) {
  throw UnsupportedError(
      std::string(function) + " does not support accelerate's optimizers",
      "use `state_dict` and `load_state_dict`");
}

void check_scalar(const char* name, const at::Tensor& tensor) {
  if (tensor.defined() &&
      (tensor.numel() != 1 || tensor.scalar_type() != at::kFloat)) {
    throw ArgumentError(str_cat(
        "`",
        name,
        "` must be a float32 tensor with one element, but it has shape ",
        tensor.sizes(),
        " and type ",
        tensor.scalar_type()));
  }
}

}  // namespace

FusedOptimizer::FusedOptimizer(
    const std::vector<torch::optim::OptimizerParamGroup>& groups,
    std::unique_ptr<torch::optim::OptimizerOptions> defaults)
    : Optimizer(checked_groups(groups), std::move(defaults)) {
}

at::Tensor FusedOptimizer::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  if (!capturing_) {
    refresh_lr();
  }
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& parameters = param_groups_[group].params();
    if (!parameters.empty()) {
      with_memory_errors(
          parameters.front().device(), [&] { step_group(group); });
    }
  }
  return loss;
}

void FusedOptimizer::refresh_lr() {
  device_lr_.resize(param_groups_.size());
  for (std::size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& group = param_groups_[i];
    DeviceLr& device_lr = device_lr_[i];
    if (group.params().empty() ||
        (group.params().front().is_cpu() && !device_lr.tensor.defined())) {
      continue;
    }
    const c10::Device device = group.params().front().device();
    const double lr = group.options().get_lr();
    if (!device_lr.tensor.defined() || device_lr.tensor.device() != device) {
      device_lr.tensor =
          at::full({}, lr, at::TensorOptions(device).dtype(at::kFloat));
    } else if (device_lr.value != lr) {
      device_lr.tensor.fill_(lr);
    }
    device_lr.value = lr;
  }
}

void FusedOptimizer::set_device_lr(std::size_t group, const at::Tensor& rate) {
  device_lr_.resize(param_groups_.size());
  DeviceLr& device_lr = device_lr_.at(group);
  device_lr.value = param_groups_[group].options().get_lr();
  if (!rate.defined()) {
    return;
  }
  check_scalar("rate", rate);
  if (device_lr.tensor.defined() &&
      device_lr.tensor.device() == rate.device()) {
    device_lr.tensor.copy_(rate.squeeze());
  } else {
    device_lr.tensor = rate.squeeze().clone();
  }
}

at::Tensor FusedOptimizer::lr_on(std::size_t group, c10::Device device) const {
  const at::Tensor& tensor = device_lr_[group].tensor;
  return tensor.defined() && tensor.device() == device ? tensor : at::Tensor();
}

void FusedOptimizer::set_scale(
    const at::Tensor& grad_scale, const at::Tensor& found_inf) {
  check_scalar("grad_scale", grad_scale);
  check_scalar("found_inf", found_inf);
  grad_scale_ = grad_scale;
  found_inf_ = found_inf;
}

OptimizerState FusedOptimizer::state_dict(
    const std::vector<std::string>& names) const {
  return optimizer_state(*this, names);
}

void FusedOptimizer::load_state_dict(
    const OptimizerState& state, const std::vector<std::string>& names) {
  load_optimizer_state(*this, state, names);
}

void FusedOptimizer::save(torch::serialize::OutputArchive& /*archive*/) const {
  refuse_archive("`torch::save`");
}

void FusedOptimizer::load(torch::serialize::InputArchive& /*archive*/) {
  refuse_archive("`torch::load`");
}

}  // namespace accelerate
