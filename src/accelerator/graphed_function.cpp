// SPDX-License-Identifier: Apache-2.0
#include "accelerator/graphed_function.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"
#include "device/device_library.h"
#include "optim/state_tensors.h"

namespace accelerate {
namespace {

using Tensors = detail::GraphedFunction::Tensors;

StepRecorderOptions recorder_options(const GraphOptions& options) {
  if (options.warmup_steps < 1 || options.max_graphs < 0) {
    throw ArgumentError(
        str_cat(
            "`warmup_steps` is ",
            options.warmup_steps,
            " and `max_graphs` is ",
            options.max_graphs),
        "pass at least 1 for `warmup_steps` and at least 0 for `max_graphs`");
  }
  return {
      .warmup_calls = options.warmup_steps,
      .max_graphs = options.max_graphs,
      .distinguishes_strides = true};
}

// Returns the tensors without their autograd graph, whose nodes belong to a
// stream other than the capture stream.
Tensors detached(const Tensors& tensors) {
  Tensors results;
  for (const at::Tensor& tensor : tensors) {
    results.push_back(tensor.detach());
  }
  return results;
}

}  // namespace

// A captured graph, and the work that each replay does on the CPU.
struct detail::GraphedFunction::Impl::Captured : CapturedStep {
  explicit Captured(Impl& function) : owner(function) {}

  Tensors replay() override {
    const at::NoGradGuard guard;
    owner.refresh_learning_rates();
    graph->replay();
    owner.count_replayed(updates);
    Tensors copies;
    for (const at::Tensor& output : outputs) {
      copies.push_back(output.clone());
    }
    return copies;
  }

  Impl& owner;
  std::unique_ptr<DeviceGraph> graph;
  Tensors outputs;
  std::int64_t updates = 0;  // Optimizer updates in one call.
};

detail::GraphedFunction::GraphedFunction(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)) {
}

Tensors detail::GraphedFunction::run(
    const Tensors& inputs, const Body& body) const {
  return impl_->run(inputs, body);
}

std::int64_t detail::GraphedFunction::num_graphs() const {
  return impl_->num_graphs();
}
std::int64_t detail::GraphedFunction::num_replays() const {
  return impl_->num_replays();
}
std::string detail::GraphedFunction::why_not() const {
  return impl_->why_not();
}

detail::GraphedFunction::Impl::Impl(
    Accelerator::Impl& accelerator, const GraphOptions& options)
    : accelerator_(accelerator), recorder_(*this, recorder_options(options)) {
}

Tensors detail::GraphedFunction::Impl::run(
    const Tensors& inputs, const Body& body) {
  return recorder_.run("", inputs, [&](const Tensors& tensors) {
    return detached(body(tensors));
  });
}

c10::Device detail::GraphedFunction::Impl::device() const {
  return accelerator_.state.device();
}

std::string detail::GraphedFunction::Impl::obstacle(
    const Tensors& inputs) const {
  if (device_backend_of(device()) == nullptr) {
    return "there is no GPU";
  }
  if (std::string reason = accelerator_.strategy->capture_obstacle();
      !reason.empty()) {
    return reason;
  }
  if (accelerator_.training.accumulation().plugin().num_steps != 1) {
    return "with gradient accumulation, not every step does the same work";
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.objects.optimizers()) {
    if (dynamic_cast<FusedOptimizer*>(optimizer) == nullptr) {
      return "a prepared LibTorch optimizer counts its steps on the CPU; use "
             "accelerate's optimizer of the same name instead";
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].device() != device()) {
      return str_cat(
          "input tensor ",
          i,
          " must be on ",
          device().str(),
          inputs[i].defined() ? ", but it is on " + inputs[i].device().str()
                              : ", but it is undefined");
    }
  }
  return {};
}

std::optional<std::string> detail::GraphedFunction::Impl::why_eager(
    const Tensors& inputs) {
  std::string reason = obstacle(inputs);
  return reason.empty() ? std::nullopt : std::optional(std::move(reason));
}

std::vector<const void*> detail::GraphedFunction::Impl::addresses() {
  std::vector<const void*> addresses;
  for (const PreparedModel& model : accelerator_.objects.models()) {
    for (const NamedTensors* named : {&model.parameters, &model.buffers}) {
      for (const at::Tensor& tensor : named->tensors) {
        addresses.push_back(tensor.const_data_ptr());
      }
    }
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.objects.optimizers()) {
    for (const at::Tensor& tensor : state_tensors(*optimizer)) {
      addresses.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
    }
  }
  return addresses;
}

std::shared_ptr<CapturedStep> detail::GraphedFunction::Impl::capture(
    CaptureDevice& device, const Tensors& inputs, const Body& body) {
  if (has_gradients()) {
    throw StateError(
        "gradients are left over from an earlier step; call `zero_grad` inside "
        "the step");
  }
  auto captured = std::make_shared<Captured>(*this);
  captured->graph = device.make_graph();
  TrainingStep& training = accelerator_.training;
  const std::int64_t updates_before = training.updates();
  set_capturing(true);
  try {
    captured->graph->capture([&] { captured->outputs = body(inputs); });
    if (has_gradients()) {
      throw StateError(
          "the step leaves gradients behind; call `zero_grad` inside the step");
    }
  } catch (...) {
    set_capturing(false);
    drop_gradients();
    training.set_updates(updates_before);
    throw;
  }
  set_capturing(false);
  // A capture computes nothing, so only a replay counts the updates.
  captured->updates = training.updates() - updates_before;
  training.set_updates(updates_before);
  return captured;
}

void detail::GraphedFunction::Impl::count_replayed(std::int64_t updates) {
  TrainingStep& training = accelerator_.training;
  training.add_updates(updates);
  if (updates > 0) {
    report_step_to_launcher(training.updates());
  }
  if (GradScaler* scaler = training.scaling()->scaler()) {
    scaler->clear_cached_skip();
  }
}

void detail::GraphedFunction::Impl::refresh_learning_rates() {
  for (torch::optim::Optimizer* optimizer : accelerator_.objects.optimizers()) {
    dynamic_cast<FusedOptimizer&>(*optimizer).refresh_lr();
  }
}

void detail::GraphedFunction::Impl::set_capturing(bool on) {
  if (on) {
    refresh_learning_rates();
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.objects.optimizers()) {
    dynamic_cast<FusedOptimizer&>(*optimizer).set_capturing(on);
  }
}

bool detail::GraphedFunction::Impl::has_gradients() const {
  return std::any_of(
      accelerator_.objects.models().begin(),
      accelerator_.objects.models().end(),
      [](const PreparedModel& model) {
        return std::any_of(
            model.parameters.tensors.begin(),
            model.parameters.tensors.end(),
            [](const at::Tensor& parameter) {
              return parameter.grad().defined();
            });
      });
}

void detail::GraphedFunction::Impl::drop_gradients() {
  for (const PreparedModel& model : accelerator_.objects.models()) {
    for (const at::Tensor& parameter : model.parameters.tensors) {
      parameter.mutable_grad().reset();
    }
  }
}

}  // namespace accelerate
