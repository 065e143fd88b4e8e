// SPDX-License-Identifier: Apache-2.0
#include "accelerator/graphed_function.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"
#include "comm/launcher_link.h"
#include "device/device_library.h"
#include "device/error_line.h"
#include "device/fused_blocks.h"
#include "device/recorded_calls.h"
#include "optim/state_tensors.h"

namespace accelerate {
namespace {

using Tensors = detail::GraphedFunction::Tensors;

std::string key_of(const Tensors& inputs) {
  std::string key;
  for (const at::Tensor& input : inputs) {
    key += str_cat(input.scalar_type(), input.sizes(), input.strides(), ";");
  }
  return key;
}

// A result that keeps its graph alive would keep nodes alive that belong to
// another stream than the one that records.
Tensors without_graph(const Tensors& tensors) {
  Tensors plain;
  for (const at::Tensor& tensor : tensors) {
    plain.push_back(tensor.detach());
  }
  return plain;
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.detach().clone());
  }
  return copies;
}

}  // namespace

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
    Accelerator::Impl& run, const GraphOptions& options)
    : run_(run), options_(options) {
  if (options.warmup_steps < 1 || options.max_graphs < 0) {
    throw ArgumentError(
        str_cat(
            "graph got ",
            options.warmup_steps,
            " warm-up steps and at most ",
            options.max_graphs,
            " graphs"),
        "pass one warm-up step or more, and 0 graphs or more");
  }
}

void detail::GraphedFunction::Impl::say(const std::string& why) {
  if (std::exchange(why_not_, why).empty()) {
    std::cerr << str_cat("warning: steps are not recorded: ", why, "\n")
              << std::flush;
  }
}

std::string detail::GraphedFunction::Impl::obstacle(
    const Tensors& inputs) const {
  if (run_.state.device().is_cpu()) {
    return "there is no GPU to record on";
  }
  if (run_.state.use_distributed() ||
      run_.state.group().device_backend() != nullptr) {
    return "ranks agree on the host in each backward";
  }
  if (run_.accumulation.plugin().num_steps != 1) {
    return "gradient accumulation changes what a step does";
  }
  for (torch::optim::Optimizer* optimizer : run_.optimizers()) {
    if (dynamic_cast<FusedOptimizer*>(optimizer) == nullptr) {
      return "a prepared optimizer of LibTorch counts its steps on the host; "
             "use accelerate's";
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].device() != run_.state.device()) {
      return str_cat(
          "tensor ",
          i,
          " of the input lies on ",
          inputs[i].defined() ? inputs[i].device().str() : "no device",
          ", not on ",
          run_.state.device().str());
    }
  }
  return {};
}

Tensors detail::GraphedFunction::Impl::run(
    const Tensors& inputs, const Body& given) {
  // Models record nothing of their own inside.
  const Body body = [&](const Tensors& tensors) {
    const RecordedCalls::Pause pause;
    return given(tensors);
  };
  if (const std::string why = obstacle(inputs); !why.empty()) {
    say(why);
    return without_graph(body(inputs));
  }
  forget_if_moved();
  Recording& recording = recordings_[key_of(inputs)];
  if (recording.graph) {
    return replay(recording, inputs);
  }
  if (recording.failed || recording.calls++ < options_.warmup_steps) {
    return without_graph(body(inputs));
  }
  if (graphs_ == options_.max_graphs) {
    recording.failed = true;
    say(str_cat("inputs have more than ", graphs_, " combinations of shapes"));
    return without_graph(body(inputs));
  }
  if (!record(recording, inputs, body)) {
    recording.failed = true;
    return without_graph(body(inputs));
  }
  --replays_;  // The one that makes up for recording.
  run_.updates -= recording.updates;
  return replay(recording, inputs);
}

std::vector<const void*> detail::GraphedFunction::Impl::places_now() const {
  std::vector<const void*> places;
  for (const PreparedModel& model : run_.models) {
    for (const NamedTensors* known : {&model.parameters, &model.buffers}) {
      for (const at::Tensor& one : known->tensors) {
        places.push_back(one.const_data_ptr());
      }
    }
  }
  for (torch::optim::Optimizer* optimizer : run_.optimizers()) {
    for (const at::Tensor& one : state_tensors(*optimizer)) {
      places.push_back(one.defined() ? one.const_data_ptr() : nullptr);
    }
  }
  return places;
}

void detail::GraphedFunction::Impl::forget_if_moved() {
  if (graphs_ > 0 && places_ != places_now()) {
    recordings_.clear();
    first_ = nullptr;
    graphs_ = 0;
  }
}

bool detail::GraphedFunction::Impl::record(
    Recording& recording, const Tensors& inputs, const Body& body) {
  if (has_gradients()) {
    say("gradients are left from before; call `zero_grad` inside");
    return false;
  }
  DeviceBackend& device = *device_backend_of(run_.state.device());
  auto graph = device.make_graph(run_.state.device().index(), first_);
  recording.inputs = copies_of(inputs);
  const std::int64_t before = run_.updates;
  Tensors outputs;
  std::string failure;
  set_recording(true);
  try {
    graph->capture([&] { outputs = without_graph(body(recording.inputs)); });
    failure = has_gradients() ? "it leaves gradients behind; call `zero_grad` "
                                "inside"
                              : "";
  } catch (const std::exception& error) {
    failure = error_line(error);
  }
  set_recording(false);
  if (!failure.empty()) {
    drop_gradients();
    run_.updates = before;
    recording.inputs.clear();
    say(failure);
    return false;
  }
  recording.updates = run_.updates - before;
  recording.outputs = std::move(outputs);
  recording.graph = std::move(graph);
  first_ = first_ != nullptr ? first_ : recording.graph.get();
  places_ = places_now();
  ++graphs_;
  return true;
}

Tensors detail::GraphedFunction::Impl::replay(
    Recording& recording, const Tensors& inputs) {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    recording.inputs[i].copy_(inputs[i]);
  }
  for (torch::optim::Optimizer* optimizer : run_.optimizers()) {
    dynamic_cast<FusedOptimizer&>(*optimizer).refresh_lr();
  }
  if (const FusedBlocks* const blocks = fused_blocks()) {
    blocks->refresh();
  }
  recording.graph->replay();
  ++replays_;
  run_.updates += recording.updates;
  if (recording.updates > 0) {
    note_step(run_.updates);
  }
  if (GradScaler* scaler = run_.scaling->scaler()) {
    scaler->forget_reading();
  }
  return copies_of(recording.outputs);
}

void detail::GraphedFunction::Impl::set_recording(bool on) {
  for (torch::optim::Optimizer* optimizer : run_.optimizers()) {
    auto& ours = dynamic_cast<FusedOptimizer&>(*optimizer);
    if (on) {
      ours.refresh_lr();
    }
    ours.set_recording(on);
  }
}

bool detail::GraphedFunction::Impl::has_gradients() const {
  return std::any_of(
      run_.models.begin(), run_.models.end(), [](const PreparedModel& model) {
        return std::any_of(
            model.parameters.tensors.begin(),
            model.parameters.tensors.end(),
            [](const at::Tensor& one) { return one.grad().defined(); });
      });
}

void detail::GraphedFunction::Impl::drop_gradients() {
  for (const PreparedModel& model : run_.models) {
    for (const at::Tensor& parameter : model.parameters.tensors) {
      parameter.mutable_grad().reset();
    }
  }
}

}  // namespace accelerate
