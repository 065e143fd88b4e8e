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
#include "device/graph_cache.h"
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

// A result that keeps its autograd graph alive would also keep nodes alive that
// belong to a stream other than the capture stream.
Tensors detached(const Tensors& tensors) {
  Tensors results;
  for (const at::Tensor& tensor : tensors) {
    results.push_back(tensor.detach());
  }
  return results;
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
    Accelerator::Impl& accelerator, const GraphOptions& options)
    : accelerator_(accelerator), options_(options) {
  if (options.warmup_steps < 1 || options.max_graphs < 0) {
    throw ArgumentError(
        str_cat(
            "`warmup_steps` is ",
            options.warmup_steps,
            " and `max_graphs` is ",
            options.max_graphs),
        "pass at least 1 for `warmup_steps` and at least 0 for `max_graphs`");
  }
}

void detail::GraphedFunction::Impl::warn_once(const std::string& reason) {
  if (std::exchange(why_not_, reason).empty()) {
    std::cerr << str_cat("warning: CUDA graphs are off: ", reason, "\n")
              << std::flush;
  }
}

std::string detail::GraphedFunction::Impl::obstacle(
    const Tensors& inputs) const {
  if (accelerator_.state.device().is_cpu()) {
    return "there is no GPU";
  }
  if (accelerator_.state.use_distributed() ||
      accelerator_.state.group().device_backend() != nullptr) {
    return "the ranks synchronize on the CPU in each backward pass";
  }
  if (accelerator_.accumulation.plugin().num_steps != 1) {
    return "with gradient accumulation, not every step does the same work";
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.optimizers()) {
    if (dynamic_cast<FusedOptimizer*>(optimizer) == nullptr) {
      return "a prepared optimizer comes from LibTorch and counts its steps on "
             "the CPU; use accelerate's optimizer instead";
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() ||
        inputs[i].device() != accelerator_.state.device()) {
      return str_cat(
          "input tensor ",
          i,
          " must be on ",
          accelerator_.state.device().str(),
          inputs[i].defined() ? ", but it is on " + inputs[i].device().str()
                              : ", but it is undefined");
    }
  }
  return {};
}

Tensors detail::GraphedFunction::Impl::run(
    const Tensors& inputs, const Body& user_body) {
  // Models inside must not capture graphs of their own.
  const Body body = [&](const Tensors& tensors) {
    const GraphCache::Pause pause;
    return user_body(tensors);
  };
  if (const std::string reason = obstacle(inputs); !reason.empty()) {
    warn_once(reason);
    return detached(body(inputs));
  }
  clear_if_moved();
  CapturedGraph& captured = graphs_[key_of(inputs)];
  if (captured.graph) {
    return replay(captured, inputs);
  }
  if (captured.failed || captured.calls++ < options_.warmup_steps) {
    return detached(body(inputs));
  }
  if (num_graphs_ == options_.max_graphs) {
    captured.failed = true;
    warn_once(str_cat(
        "there are more than ", num_graphs_, " combinations of input shapes"));
    return detached(body(inputs));
  }
  if (!capture(captured, inputs, body)) {
    captured.failed = true;
    return detached(body(inputs));
  }
  // Capturing computes nothing, so this call also replays the graph; that
  // replay is not counted.
  --num_replays_;
  accelerator_.updates -= captured.updates;
  return replay(captured, inputs);
}

std::vector<const void*> detail::GraphedFunction::Impl::current_addresses()
    const {
  std::vector<const void*> addresses;
  for (const PreparedModel& model : accelerator_.models) {
    for (const NamedTensors* named : {&model.parameters, &model.buffers}) {
      for (const at::Tensor& tensor : named->tensors) {
        addresses.push_back(tensor.const_data_ptr());
      }
    }
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.optimizers()) {
    for (const at::Tensor& tensor : state_tensors(*optimizer)) {
      addresses.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
    }
  }
  return addresses;
}

void detail::GraphedFunction::Impl::clear_if_moved() {
  if (num_graphs_ > 0 && addresses_ != current_addresses()) {
    graphs_.clear();
    pool_ = nullptr;
    num_graphs_ = 0;
  }
}

bool detail::GraphedFunction::Impl::capture(
    CapturedGraph& captured, const Tensors& inputs, const Body& body) {
  if (has_gradients()) {
    warn_once(
        "gradients are left over from an earlier step; call `zero_grad` inside "
        "the step");
    return false;
  }
  DeviceBackend& device = *device_backend_of(accelerator_.state.device());
  auto graph = device.make_graph(accelerator_.state.device().index(), pool_);
  captured.inputs = copies_of(inputs);
  const std::int64_t updates_before = accelerator_.updates;
  Tensors outputs;
  std::string failure;
  set_capturing(true);
  try {
    graph->capture([&] { outputs = detached(body(captured.inputs)); });
    failure = has_gradients() ? "the step leaves gradients behind; call "
                                "`zero_grad` inside the step"
                              : "";
  } catch (const std::exception& error) {
    failure = error_line(error);
  }
  set_capturing(false);
  if (!failure.empty()) {
    drop_gradients();
    accelerator_.updates = updates_before;
    captured.inputs.clear();
    warn_once(failure);
    return false;
  }
  captured.updates = accelerator_.updates - updates_before;
  captured.outputs = std::move(outputs);
  captured.graph = std::move(graph);
  pool_ = pool_ != nullptr ? pool_ : captured.graph.get();
  addresses_ = current_addresses();
  ++num_graphs_;
  return true;
}

Tensors detail::GraphedFunction::Impl::replay(
    CapturedGraph& captured, const Tensors& inputs) {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    captured.inputs[i].copy_(inputs[i]);
  }
  for (torch::optim::Optimizer* optimizer : accelerator_.optimizers()) {
    dynamic_cast<FusedOptimizer&>(*optimizer).refresh_lr();
  }
  if (const FusedBlocks* const blocks = fused_blocks()) {
    blocks->before_replay();
  }
  captured.graph->replay();
  ++num_replays_;
  accelerator_.updates += captured.updates;
  if (captured.updates > 0) {
    report_step_to_launcher(accelerator_.updates);
  }
  if (GradScaler* scaler = accelerator_.scaling->scaler()) {
    scaler->clear_cached_skip();
  }
  return copies_of(captured.outputs);
}

void detail::GraphedFunction::Impl::set_capturing(bool on) {
  for (torch::optim::Optimizer* optimizer : accelerator_.optimizers()) {
    auto& fused = dynamic_cast<FusedOptimizer&>(*optimizer);
    if (on) {
      fused.refresh_lr();
    }
    fused.set_capturing(on);
  }
}

bool detail::GraphedFunction::Impl::has_gradients() const {
  return std::any_of(
      accelerator_.models.begin(),
      accelerator_.models.end(),
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
  for (const PreparedModel& model : accelerator_.models) {
    for (const at::Tensor& parameter : model.parameters.tensors) {
      parameter.mutable_grad().reset();
    }
  }
}

}  // namespace accelerate
