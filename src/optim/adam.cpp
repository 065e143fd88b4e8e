// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros_like.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "device/device_library.h"
#include "device/fused_blocks.h"
#include "optim/param_group_options.h"
#include "optim/step_counters.h"
#include "optim/step_tensors.h"

namespace accelerate {
namespace {

using Group = torch::optim::OptimizerParamGroup;
using States = ska::
    flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Parameters that get their first gradient in the same step share the memory
// of their counters: NOTE [Packed step counters].
void make_states(States& states, const StepTensors& tensors) {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    if (states.count(tensors.parameters[i].unsafeGetTensorImpl()) == 0) {
      missing.push_back(i);
    }
  }
  if (missing.empty()) {
    return;
  }
  const auto counters =
      make_step_counters(missing.size(), tensors.values.front().device());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const at::Tensor& value = tensors.values[missing[i]];
    auto state = std::make_unique<AdamParamState>();
    state->step = counters[i];
    state->exp_avg = at::zeros_like(value);
    state->exp_avg_sq = at::zeros_like(value);
    states[tensors.parameters[missing[i]].unsafeGetTensorImpl()] =
        std::move(state);
  }
}

struct Moments {
  std::vector<at::Tensor> exp_avgs;
  std::vector<at::Tensor> exp_avg_sqs;
  std::vector<at::Tensor> max_exp_avg_sqs;  // Empty without amsgrad.
  std::vector<at::Tensor> steps;
};

// A parameter may have changed its device or memory layout since the last step;
// its moments are converted accordingly.
Moments moments_of(States& states, const StepTensors& tensors, bool amsgrad) {
  make_states(states, tensors);
  Moments moments;
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i) {
    const at::Tensor& value = tensors.values[i];
    auto& state = static_cast<AdamParamState&>(
        *states.at(tensors.parameters[i].unsafeGetTensorImpl()));
    state.exp_avg = laid_out_like(value, state.exp_avg);
    state.exp_avg_sq = laid_out_like(value, state.exp_avg_sq);
    state.step = state.step.to(value.device());
    moments.exp_avgs.push_back(state.exp_avg);
    moments.exp_avg_sqs.push_back(state.exp_avg_sq);
    moments.steps.push_back(state.step);
    if (amsgrad) {
      state.max_exp_avg_sq = state.max_exp_avg_sq.defined()
                                 ? laid_out_like(value, state.max_exp_avg_sq)
                                 : at::zeros_like(value);
      moments.max_exp_avg_sqs.push_back(state.max_exp_avg_sq);
    }
  }
  return moments;
}

[[noreturn]] void refuse_sparse(
    const char* optimizer, const at::Tensor& parameter) {
  throw UnsupportedError(
      str_cat(
          optimizer,
          " does not support sparse gradients, but the parameter of shape ",
          parameter.sizes(),
          " has a sparse gradient"),
      "use SGD for this parameter, or create its embedding with "
      "`sparse(false)`");
}

// The inputs of a step that are scalars on the device.
struct Scalars {
  std::optional<at::Tensor> scale;
  std::optional<at::Tensor> found_inf;
  std::function<at::Tensor(c10::Device)> lr_on;
};

// Runs the device library's AdamW, which also refreshes the bf16 copies of the
// parameters. Returns false if there is no device library or it does not
// support this step.
bool step_on_device(
    const StepTensors& tensors,
    const Moments& moments,
    const AdamWOptions& options,
    const at::Tensor& lr,
    const Scalars& scalars) {
  const at::Tensor& first = tensors.values.front();
  const FusedBlocks* const fused = fused_blocks_of(first.device().type());
  if (fused == nullptr || first.is_cpu() || first.scalar_type() != at::kFloat ||
      options.amsgrad) {
    return false;
  }
  for (std::size_t i = 0; i < tensors.values.size(); ++i) {
    // A temporary copy of a parameter has no bf16 copy.
    if (!tensors.values[i].is_same(tensors.parameters[i]) ||
        tensors.gradients[i].scalar_type() != at::kFloat) {
      return false;
    }
  }
  fused->adamw_step(
      {.parameters = tensors.parameters,
       .gradients = tensors.gradients,
       .exp_avgs = moments.exp_avgs,
       .exp_avg_sqs = moments.exp_avg_sqs,
       .steps = moments.steps,
       .lr = lr,
       .grad_scale = scalars.scale.value_or(at::Tensor()),
       .found_inf = scalars.found_inf.value_or(at::Tensor()),
       .lr_value = options.lr,
       .beta1 = options.betas[0],
       .beta2 = options.betas[1],
       .eps = options.eps,
       .weight_decay = options.weight_decay,
       .maximize = options.maximize});
  return true;
}
bool step_on_device(
    const StepTensors& /*tensors*/,
    const Moments& /*moments*/,
    const AdamOptions& /*options*/,
    const at::Tensor& /*lr*/,
    const Scalars& /*scalars*/) {
  return false;
}

template <typename Values, typename Kernel>
void step_adam(
    const Group& group,
    States& states,
    const Values& options,
    const char* name,
    const Scalars& scalars,
    Kernel kernel) {
  std::vector<at::Tensor> sparse;
  const std::vector<StepTensors> buckets = collect(group, sparse);
  if (!sparse.empty()) {
    refuse_sparse(name, sparse.front());
  }
  for (const StepTensors& tensors : buckets) {
    const Moments moments = moments_of(states, tensors, options.amsgrad);
    advance(moments.steps);
    const auto run = [&](const auto& lr) {
      kernel(
          tensors.values,
          tensors.gradients,
          moments.exp_avgs,
          moments.exp_avg_sqs,
          moments.max_exp_avg_sqs,
          moments.steps,
          lr,
          options.betas[0],
          options.betas[1],
          options.weight_decay,
          options.eps,
          options.amsgrad,
          options.maximize,
          scalars.scale,
          scalars.found_inf);
    };
    const at::Tensor lr = scalars.lr_on(tensors.values.front().device());
    if (step_on_device(tensors, moments, options, lr, scalars)) {
      // The device library has done the step.
    } else if (lr.defined()) {
      run(lr);
    } else {
      run(options.lr);
    }
    if (scalars.found_inf) {
      undo_skipped_step(moments.steps, *scalars.found_inf);
    }
    tensors.write_back();
  }
}

constexpr auto kFusedAdamW = [](auto&&... arguments) {
  at::_fused_adamw_(arguments...);
};
constexpr auto kFusedAdam = [](auto&&... arguments) {
  at::_fused_adam_(arguments...);
};

}  // namespace

AdamW::AdamW(std::vector<at::Tensor> params, double lr)
    : AdamW(std::move(params), AdamWOptions{.lr = lr}) {
}
AdamW::AdamW(std::vector<at::Tensor> params, const AdamWOptions& options)
    : AdamW(std::vector<Group>{Group(std::move(params))}, options) {
}
AdamW::AdamW(const std::vector<Group>& groups, double lr)
    : AdamW(groups, AdamWOptions{.lr = lr}) {
}
AdamW::AdamW(const std::vector<Group>& groups, const AdamWOptions& options)
    : FusedOptimizer(
          with_checked_options(groups, options, "AdamW"),
          std::make_unique<ParamGroupOptions<AdamWOptions>>(options)) {
}

void AdamW::step_group(std::size_t group) {
  step_adam(
      param_groups_[group],
      state_,
      options_of<AdamWOptions>(param_groups_[group], group, "AdamW"),
      "AdamW",
      {if_defined(grad_scale_),
       if_defined(found_inf_),
       [&](c10::Device device) { return lr_on(group, device); }},
      kFusedAdamW);
}

Adam::Adam(std::vector<at::Tensor> params, double lr)
    : Adam(std::move(params), AdamOptions{.lr = lr}) {
}
Adam::Adam(std::vector<at::Tensor> params, const AdamOptions& options)
    : Adam(std::vector<Group>{Group(std::move(params))}, options) {
}
Adam::Adam(const std::vector<Group>& groups, double lr)
    : Adam(groups, AdamOptions{.lr = lr}) {
}
Adam::Adam(const std::vector<Group>& groups, const AdamOptions& options)
    : FusedOptimizer(
          with_checked_options(groups, options, "Adam"),
          std::make_unique<ParamGroupOptions<AdamOptions>>(options)) {
}

void Adam::step_group(std::size_t group) {
  step_adam(
      param_groups_[group],
      state_,
      options_of<AdamOptions>(param_groups_[group], group, "Adam"),
      "Adam",
      {if_defined(grad_scale_),
       if_defined(found_inf_),
       [&](c10::Device device) { return lr_on(group, device); }},
      kFusedAdam);
}

}  // namespace accelerate
