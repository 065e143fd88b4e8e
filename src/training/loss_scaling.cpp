// SPDX-License-Identifier: Apache-2.0
#include "training/loss_scaling.h"

#include <utility>

#include "accelerate/optim.h"
#include "device/device_library.h"

namespace accelerate {

LossScaling::LossScaling(const GradScalerKwargs& kwargs, c10::Device device)
    : scaler_(std::in_place, kwargs, device) {
}

void LossScaling::attach(torch::optim::Optimizer& optimizer) {
  if (!scaler_ || !scaler_->is_enabled()) {
    return;
  }
  if (auto* ours = dynamic_cast<FusedOptimizer*>(&optimizer)) {
    ours->set_scale({}, scaler_->found_inf(this));
  } else {
    foreign_optimizer_ = true;
  }
}

void LossScaling::begin_backward(const std::vector<at::Tensor>& parameters) {
  if (!scaler_ || !scaler_->is_enabled() || !unscaled_) {
    return;
  }
  unscaled_ = false;
  update_scale();
  for (const at::Tensor& parameter : parameters) {
    if (const at::Tensor& gradient = parameter.grad(); gradient.defined()) {
      gradient.mul_(scaler_->scale_tensor().to(gradient.scalar_type()));
    }
  }
}

at::Tensor LossScaling::scale(const at::Tensor& loss) const {
  return scaler_ ? scaler_->scale(loss) : loss;
}

void LossScaling::finish(const std::vector<at::Tensor>& parameters) {
  if (!scaler_ || !scaler_->is_enabled()) {
    return;
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
    }
  }
  scaler_->unscale_(gradients, this);
  unscaled_ = true;
  update_pending_ = true;
  if (foreign_optimizer_ && scaler_->step_was_skipped()) {
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad().reset();
    }
  }
}

void LossScaling::update_scale() {
  if (std::exchange(update_pending_, false)) {
    scaler_->update();
  }
}

bool LossScaling::step_was_skipped() const {
  return scaler_ && scaler_->step_was_skipped();
}

// With an optimizer from another library, `finish` has already waited for the
// device. While a CUDA graph is captured, nothing can be read from the device.
std::shared_ptr<const SkipFlag> LossScaling::deferred_skip_flag() const {
  if (!scaler_ || !scaler_->is_enabled() || foreign_optimizer_) {
    return nullptr;
  }
  const at::Tensor flag = scaler_->skip_flag();
  if (!flag.defined() || flag.is_cpu()) {
    return nullptr;
  }
  const DeviceBackend* const device = device_backend_of(flag.device());
  return device != nullptr && device->is_capturing() ? nullptr
                                                     : skip_flag_from(flag);
}

}  // namespace accelerate
