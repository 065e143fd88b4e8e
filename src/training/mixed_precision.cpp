// SPDX-License-Identifier: Apache-2.0
#include "training/mixed_precision.h"

#include <atomic>

#include <torch/nn/module.h>

#include "accelerate/autocast_module.h"
#include "accelerate/error.h"
#include "device/device_library.h"
#include "precision/device_precision.h"

namespace accelerate {
namespace {

// The object that keeps autocast enabled in a thread; at most one.
std::atomic<const void*> autocast_owner = nullptr;

Precision chosen_precision(
    const AcceleratorOptions& options,
    const Environment& environment,
    c10::Device device) {
  Precision precision = Precision::no;
  if (options.mixed_precision) {
    precision = *options.mixed_precision;
  } else if (const auto name = environment.get("ACCELERATE_MIXED_PRECISION")) {
    precision = parse_precision(*name);
  }
  check_precision(precision, device.type());
  if (const DeviceBackend* backend = device_backend_of(device)) {
    check_device_precision(precision, *backend, device.index());
  }
  return precision;
}

}  // namespace

MixedPrecision::MixedPrecision(
    const AcceleratorOptions& options,
    const Environment& environment,
    c10::Device device)
    : device_(device),
      precision_(chosen_precision(options, environment, device)),
      autocast_(options.autocast_kwargs),
      scope_(options.autocast_scope),
      scaler_(options.scaler_kwargs) {
}

MixedPrecision::~MixedPrecision() {
  disable_in_thread();
}

void MixedPrecision::enable(torch::nn::Module& module) {
  if (precision_ == Precision::no) {
    return;
  }
  if (auto* autocast = dynamic_cast<AutocastModule*>(&module)) {
    autocast->set_autocast(
        AutocastPolicy{device_.type(), precision_, autocast_});
  } else if (scope_ == AutocastScope::thread && !thread_autocast_) {
    enable_in_thread();
  }
}

void MixedPrecision::enable_in_thread() {
  const void* no_owner = nullptr;
  if (!autocast_owner.compare_exchange_strong(no_owner, this)) {
    throw StateError(
        "another Accelerator already keeps autocast enabled",
        "destroy it or call its free_memory() first, or use "
        "AutocastScope::manual");
  }
  // The weight cache of autocast would return stale weights after a step.
  AutocastKwargs kwargs = autocast_;
  kwargs.cache_enabled = false;
  thread_ = std::this_thread::get_id();
  thread_autocast_ = guard(kwargs);
}

void MixedPrecision::disable(const std::vector<PreparedModel>& models) {
  for (const PreparedModel& model : models) {
    if (auto* module = dynamic_cast<AutocastModule*>(model.live_module())) {
      module->set_autocast(std::nullopt);
    }
  }
  disable_in_thread();
}

void MixedPrecision::disable_in_thread() {
  if (thread_autocast_) {
    thread_autocast_.reset();
    autocast_owner = nullptr;
  }
}

void MixedPrecision::check_thread() const {
  if (thread_autocast_ && std::this_thread::get_id() != thread_) {
    throw StateError(
        "autocast is enabled only in the thread that called prepare, but "
        "backward was called in another thread",
        "train in the thread that called prepare, or use "
        "AutocastScope::manual with autocast() in the thread that runs the "
        "forward pass");
  }
}

std::unique_ptr<AutocastGuard> MixedPrecision::guard(
    const AutocastKwargs& kwargs) const {
  return std::make_unique<AutocastGuard>(device_.type(), precision_, kwargs);
}

std::shared_ptr<LossScaling> MixedPrecision::make_loss_scaling() const {
  return precision_ == Precision::fp16
             ? std::make_shared<LossScaling>(scaler_, device_)
             : std::make_shared<LossScaling>();
}

}  // namespace accelerate
