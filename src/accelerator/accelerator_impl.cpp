// SPDX-License-Identifier: Apache-2.0
#include "accelerator/accelerator_impl.h"

#include <utility>

#include <torch/nn/module.h>

#include "accelerator/chosen_options.h"
#include "config/environment.h"
#include "device/device_library.h"
#include "device/lazy_device.h"

namespace accelerate {
namespace {

// The number of devices that share a batch of this process.
std::int64_t devices_of(c10::Device device) {
  const LazyDevice* const lazy = lazy_device_of(device);
  return lazy != nullptr ? lazy->device_count() : 1;
}

}  // namespace

Accelerator::Impl::Impl(PartialState state_, const AcceleratorOptions& options_)
    : state(std::move(state_)),
      options(options_),
      data(chosen_data(options)),
      mesh(state.group(), devices_of(state.device())),
      strategy(make_strategy(
          state.group(),
          chosen_buckets(options.ddp_kwargs),
          lazy_device_of(state.device()))),
      objects(*strategy),
      precision(options, Environment::of_this_process(), state.device()),
      training(
          {state, mesh, *strategy, objects, precision},
          {chosen_accumulation(options, Environment::of_this_process()),
           options.ddp_kwargs.broadcast_buffers}),
      checkpoints({state, mesh, *strategy, objects, training}, options),
      trackers(
          state, options, checkpoints.folders().configuration().logging_dir) {
  choose_tf32(options.allow_tf32);
  checkpoints.registered().run_documents["trackers"] = {
      [this] { return trackers.state_dict(); },
      [this](const Json& saved) { trackers.load_state_dict(saved); }};
}

Accelerator::Impl::~Impl() {
  release_modules();
}

const Mesh& Accelerator::Impl::data_mesh() const {
  static_cast<void>(state.group());
  return mesh;
}

void Accelerator::Impl::set_up(torch::nn::Module& module) {
  precision.enable(module);
  if (auto* recordable = dynamic_cast<RecordableModule*>(&module)) {
    recordable->set_record_policy(record_policy());
  }
}

void Accelerator::Impl::release_modules() {
  precision.disable(objects.models());
  for (const PreparedModel& model : objects.models()) {
    if (auto* module = dynamic_cast<RecordableModule*>(model.live_module())) {
      module->set_record_policy({});
    }
  }
}

RecordPolicy Accelerator::Impl::record_policy() const {
  // A lazy device (XLA) compiles every step anyway.
  if (!options.record_steps || state.device().is_cpu() ||
      lazy_device_of(state.device()) != nullptr) {
    return {};
  }
  const std::string obstacle = strategy->capture_obstacle();
  return {obstacle.empty(), state.is_main_process() ? obstacle : ""};
}

void Accelerator::Impl::forget_prepared() {
  release_modules();
  objects.clear();
  training.restart();
}

}  // namespace accelerate
