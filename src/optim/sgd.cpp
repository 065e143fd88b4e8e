// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros_like.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "optim/param_group_options.h"
#include "optim/step_tensors.h"

namespace accelerate {
namespace {

using Group = torch::optim::OptimizerParamGroup;
using States = ska::
    flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

std::optional<at::Tensor> as_optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor momentum_of(
    States& states, const at::Tensor& parameter, const at::Tensor& value) {
  auto& slot = states[parameter.unsafeGetTensorImpl()];
  if (slot == nullptr) {
    slot = std::make_unique<SGDParamState>();
  }
  auto& state = static_cast<SGDParamState&>(*slot);
  state.momentum_buffer = state.momentum_buffer.defined()
                              ? laid_out_like(value, state.momentum_buffer)
                              : at::zeros_like(value);
  return state.momentum_buffer;
}

bool has_momentum(const States& states, const at::Tensor& parameter) {
  return states.count(parameter.unsafeGetTensorImpl()) != 0;
}

// NOTE [First momentum] In a parameter's first step, the momentum is the
// gradient itself, without dampening. If `dampening` is 0, a momentum buffer of
// zeros gives the same result, so the first step needs no special case, even
// after an overflow. With dampening, the CPU must know whether the first step
// was skipped. Until each parameter has had its first step, the CPU therefore
// reads the overflow flag, which waits for the device.
struct Parts {
  StepTensors first;
  StepTensors later;
};

Parts split_by_first(const States& states, const StepTensors& tensors) {
  Parts parts;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    StepTensors& part =
        has_momentum(states, tensors.parameters[i]) ? parts.later : parts.first;
    part.parameters.push_back(tensors.parameters[i]);
    part.values.push_back(tensors.values[i]);
    part.gradients.push_back(tensors.gradients[i]);
  }
  return parts;
}

struct Scaling {
  std::optional<at::Tensor> scale;
  std::optional<at::Tensor> found_inf;
  std::function<at::Tensor(c10::Device)> lr_on;

  bool overflowed() const {
    return found_inf && found_inf->item<float>() != 0.0F;
  }
};

void run_kernel(
    const StepTensors& tensors,
    States& states,
    const SGDOptions& options,
    const Scaling& scaling,
    bool is_first) {
  if (tensors.parameters.empty()) {
    return;
  }
  std::vector<at::Tensor> momenta;
  if (options.momentum != 0) {
    for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
      momenta.push_back(
          momentum_of(states, tensors.parameters[i], tensors.values[i]));
    }
  }
  const auto run = [&](const auto& lr) {
    at::_fused_sgd_(
        tensors.values,
        tensors.gradients,
        momenta,
        options.weight_decay,
        options.momentum,
        lr,
        options.dampening,
        options.nesterov,
        options.maximize,
        is_first,
        scaling.scale,
        scaling.found_inf);
  };
  const at::Tensor lr = scaling.lr_on(tensors.values.front().device());
  if (lr.defined()) {
    run(lr);
  } else {
    run(options.lr);
  }
  tensors.write_back();
}

void step_dense(
    const StepTensors& tensors,
    States& states,
    const SGDOptions& options,
    const Scaling& scaling) {
  if (options.momentum == 0 || options.dampening == 0) {
    run_kernel(tensors, states, options, scaling, /*is_first=*/false);
    return;
  }
  const Parts parts = split_by_first(states, tensors);
  if (!parts.first.parameters.empty() && scaling.overflowed()) {
    return;
  }
  run_kernel(parts.first, states, options, scaling, /*is_first=*/true);
  run_kernel(parts.later, states, options, scaling, /*is_first=*/false);
}

void step_sparse(
    const at::Tensor& parameter,
    const SGDOptions& options,
    const Scaling& scaling) {
  if (options.momentum != 0 || options.weight_decay != 0) {
    throw UnsupportedError(
        str_cat(
            "SGD with momentum ",
            options.momentum,
            " and weight decay ",
            options.weight_decay,
            " does not support sparse gradients, but the parameter of shape ",
            parameter.sizes(),
            " has a sparse gradient"),
        "put the parameter in a group without momentum and weight decay, or "
        "create its embedding with `sparse(false)`");
  }
  if (scaling.overflowed()) {
    return;
  }
  at::Tensor gradient = parameter.grad();
  if (scaling.scale) {
    gradient = gradient.div(*scaling.scale);
  }
  parameter.add_(gradient, options.maximize ? options.lr : -options.lr);
}

}  // namespace

SGD::SGD(std::vector<at::Tensor> params, double lr)
    : SGD(std::move(params), SGDOptions{.lr = lr}) {
}
SGD::SGD(std::vector<at::Tensor> params, const SGDOptions& options)
    : SGD(std::vector<Group>{Group(std::move(params))}, options) {
}
SGD::SGD(const std::vector<Group>& groups, double lr)
    : SGD(groups, SGDOptions{.lr = lr}) {
}
SGD::SGD(const std::vector<Group>& groups, const SGDOptions& options)
    : FusedOptimizer(
          with_checked_options(groups, options, "SGD"),
          std::make_unique<ParamGroupOptions<SGDOptions>>(options)) {
}

void SGD::step_group(std::size_t group) {
  const auto& options =
      options_of<SGDOptions>(param_groups_[group], group, "SGD");
  const Scaling scaling{
      as_optional(grad_scale_),
      as_optional(found_inf_),
      [&](c10::Device device) { return lr_on(group, device); }};
  std::vector<at::Tensor> sparse;
  for (const StepTensors& tensors : collect(param_groups_[group], sparse)) {
    step_dense(tensors, state_, options, scaling);
  }
  for (const at::Tensor& parameter : sparse) {
    step_sparse(parameter, options, scaling);
  }
}

}  // namespace accelerate
