// SPDX-License-Identifier: Apache-2.0
#include "accelerate/grad_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/optimizer.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "precision/gradient_values.h"

namespace accelerate {
namespace {

void check(bool good, const char* name, double value, const char* hint) {
  if (!good) {
    throw ArgumentError(
        str_cat("`GradScalerKwargs::", name, "` is ", value), hint);
  }
}

void check_options(const GradScalerKwargs& options) {
  check(
      options.init_scale > 0,
      "init_scale",
      options.init_scale,
      "pass a positive number");
  check(
      options.growth_factor > 1,
      "growth_factor",
      options.growth_factor,
      "pass a number above 1");
  check(
      options.backoff_factor > 0 && options.backoff_factor < 1,
      "backoff_factor",
      options.backoff_factor,
      "pass a number between 0 and 1");
  check(
      options.growth_interval >= 1,
      "growth_interval",
      static_cast<double>(options.growth_interval),
      "pass 1 or more");
}

std::vector<at::Tensor> gradients_of(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> gradients;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

void check_not_fp16(const std::vector<at::Tensor>& values) {
  for (const at::Tensor& value : values) {
    if (value.scalar_type() == at::kHalf) {
      throw ArgumentError(
          str_cat(
              "a gradient of shape ",
              value.sizes(),
              " has type fp16, whose range is too small for unscaling"),
          "keep the parameters in fp32 and use autocast for fp16");
    }
  }
}

}  // namespace

GradScaler::GradScaler(const GradScalerKwargs& options, c10::Device device)
    : options_(options), device_(device) {
  check_options(options);
  if (!options.enabled) {
    return;
  }
  const auto on_device = at::TensorOptions(device);
  scale_ = at::full({}, options.init_scale, on_device.dtype(at::kFloat));
  growth_tracker_ = at::zeros({}, on_device.dtype(at::kInt));
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  if (!options_.enabled) {
    return loss;
  }
  return loss.mul(scale_.to(loss.device()));
}

// The flags of the previous step keep their values until the next step begins.
void GradScaler::begin_step() {
  if (step_open_) {
    return;
  }
  step_open_ = true;
  for (auto& [owner, flag] : flags_) {
    flag.found_inf.zero_();
    flag.unscaled = false;
  }
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  unscale_(gradients_of(optimizer), &optimizer);
}

void GradScaler::unscale_(
    const std::vector<at::Tensor>& gradients, const void* owner) {
  if (!options_.enabled) {
    return;
  }
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> values = gradient_values(gradients);
  check_not_fp16(values);
  begin_step();
  at::Tensor flag = found_inf(owner);
  if (flags_.at(owner).unscaled) {
    return;
  }
  flags_.at(owner).unscaled = true;
  skipped_.reset();
  // Computed in double, so that the inverse is exact to fp32 precision even if
  // the scale is not a power of two.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  for (const auto& group : by_type(values)) {
    const c10::Device device = group.front().device();
    if (device == device_) {
      at::_amp_foreach_non_finite_check_and_unscale_(group, flag, inverse);
      continue;
    }
    at::Tensor device_flag =
        flag.to(device, /*non_blocking=*/false, /*copy=*/true);
    at::_amp_foreach_non_finite_check_and_unscale_(
        group, device_flag, inverse.to(device));
    flag.copy_(at::maximum(flag, device_flag.to(device_)));
  }
}

at::Tensor GradScaler::found_inf(const void* owner) {
  if (!options_.enabled) {
    return {};
  }
  Flag& flag = flags_[owner];
  if (!flag.found_inf.defined()) {
    flag.found_inf =
        at::zeros({1}, at::TensorOptions(device_).dtype(at::kFloat));
  }
  return flag.found_inf;
}

at::Tensor GradScaler::combined() const {
  at::Tensor result;
  for (const auto& [owner, flag] : flags_) {
    result =
        result.defined() ? at::maximum(result, flag.found_inf) : flag.found_inf;
  }
  return result;
}

void GradScaler::update() {
  if (!options_.enabled) {
    return;
  }
  if (!step_open_) {
    throw StateError(
        "`GradScaler::update` was called, but `unscale_` has not been called "
        "since the last update",
        "call `unscale_` after the backward pass and before `update`");
  }
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(
      scale_,
      growth_tracker_,
      combined(),
      options_.growth_factor,
      options_.backoff_factor,
      options_.growth_interval);
  step_open_ = false;
}

bool GradScaler::step_was_skipped() const {
  if (!skipped_) {
    const at::Tensor flag = combined();
    skipped_ = flag.defined() && flag.item<float>() != 0.0F;
  }
  return *skipped_;
}

double GradScaler::get_scale() const {
  return options_.enabled ? scale_.item<double>() : 1.0;
}

Json GradScaler::state_dict() const {
  if (!options_.enabled) {
    return Json::object();
  }
  return Json::object(
      {{"scale", get_scale()},
       {"growth_factor", options_.growth_factor},
       {"backoff_factor", options_.backoff_factor},
       {"growth_interval", options_.growth_interval},
       {"_growth_tracker", growth_tracker_.item<std::int64_t>()}});
}

void GradScaler::load_state_dict(const Json& state) {
  const bool saved_enabled = state.as_object().size() != 0;
  if (saved_enabled != options_.enabled) {
    throw StateError(
        str_cat(
            "the saved gradient scaler was ",
            saved_enabled ? "enabled" : "not enabled",
            ", but this scaler is ",
            options_.enabled ? "enabled" : "not enabled"),
        "load it into an Accelerator with the same mixed precision");
  }
  if (!options_.enabled) {
    return;
  }
  GradScalerKwargs loaded = options_;
  loaded.init_scale = state.at("scale").as_double();
  loaded.growth_factor = state.at("growth_factor").as_double();
  loaded.backoff_factor = state.at("backoff_factor").as_double();
  loaded.growth_interval = state.at("growth_interval").as_integer();
  const std::int64_t tracker = state.at("_growth_tracker").as_integer();
  check_options(loaded);
  scale_.fill_(loaded.init_scale);
  growth_tracker_.fill_(tracker);
  loaded.init_scale = options_.init_scale;
  options_ = loaded;
}

}  // namespace accelerate
