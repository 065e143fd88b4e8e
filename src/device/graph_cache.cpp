// SPDX-License-Identifier: Apache-2.0
#include "device/graph_cache.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "device/device_library.h"
#include "device/error_line.h"
#include "device/fused_blocks.h"

namespace accelerate {

struct GraphCache::CapturedGraph {
  bool was_called = false;
  bool failed = false;
  std::unique_ptr<DeviceGraph> forward;  // Null until it is captured.
  std::unique_ptr<DeviceGraph> backward;
  Tensors inputs;
  Tensors outputs;
  Tensors d_outputs;          // Undefined for outputs without a gradient.
  std::vector<bool> is_zero;  // Which of `d_outputs` are zero now.
  Tensors gradients;          // For the parameters; undefined: none.
};

namespace {

using Tensors = GraphCache::Tensors;
using CapturedGraph = GraphCache::CapturedGraph;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One replayed call, from its forward to its backward.
struct PendingCall : torch::CustomClassHolder {
  std::shared_ptr<CapturedGraph> graph;  // Null once backward has started.
  Tensors parameters;
};

thread_local int pauses = 0;

std::string key_of(const std::string& key, const Tensors& inputs) {
  std::string all = key;
  for (const at::Tensor& input : inputs) {
    if (input.defined()) {
      all += str_cat(static_cast<int>(input.scalar_type()), input.sizes());
    }
    all += ';';
  }
  return all;
}

bool are_on(const Tensors& tensors, c10::Device device) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return !tensor.defined() || tensor.device() == device;
  });
}

// Each captured graph has its own gradients.
std::int64_t gradient_bytes(const Tensors& parameters) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : parameters) {
    bytes +=
        tensor.requires_grad() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  }
  return bytes;
}

// Hooks must see each gradient once; with a captured graph they would run
// twice.
bool any_has_hooks(const Tensors& parameters) {
  return std::any_of(
      parameters.begin(), parameters.end(), [](const auto& tensor) {
        return !torch::autograd::impl::hooks(tensor).empty();
      });
}

// A replay overwrites the captured gradients. If `.grad` aliases one of them
// (a sum over micro-batches, for example), it gets its own memory first.
void detach_accumulated_gradient(
    const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor& sum = parameter.mutable_grad();
  if (sum.defined() && gradient.defined() && sum.is_alias_of(gradient)) {
    sum = sum.clone();
  }
}

void set_d_outputs(CapturedGraph& graph, const variable_list& d) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const at::Tensor& to = graph.d_outputs[i];
    if (!to.defined()) {
      continue;
    }
    const at::Tensor& from = d[next++];
    if (from.defined()) {
      to.copy_(from);
    } else if (!graph.is_zero[i]) {
      to.zero_();
    }
    graph.is_zero[i] = !from.defined();
  }
}

// Tensors of the same type are copied in one kernel launch, because the launch
// is most of the cost of a copy of a few bytes.
void copy_all(const Tensors& to, const Tensors& from) {
  if (!to.empty()) {
    at::_foreach_copy_(to, from);
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(at::empty_like(tensor));
  }
  copy_all(copies, tensors);
  return copies;
}

// The autograd node behind the outputs of a replayed call.
class Replay : public torch::autograd::Function<Replay> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const c10::intrusive_ptr<PendingCall>& call,
      at::TensorList /*parameters*/) {
    context->set_materialize_grads(false);
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    call->graph->forward->replay();
    Tensors outputs;
    for (std::size_t i = 0; i < call->graph->outputs.size(); ++i) {
      if (call->graph->d_outputs[i].defined()) {
        outputs.push_back(call->graph->outputs[i]);
      }
    }
    return copies_of(outputs);
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& d) {
    auto call = c10::static_intrusive_pointer_cast<PendingCall>(
        context->saved_data["call"].toCapsule());
    if (!call->graph) {
      throw StateError(
          "backward was called twice for a step that ran as a CUDA graph",
          "call backward once, or set `record_steps` to false in "
          "`AcceleratorOptions`");
    }
    const at::NoGradGuard no_grad;
    const auto graph = std::exchange(call->graph, nullptr);
    set_d_outputs(*graph, d);
    variable_list results = {at::Tensor()};
    for (std::size_t i = 0; i < call->parameters.size(); ++i) {
      detach_accumulated_gradient(call->parameters[i], graph->gradients[i]);
    }
    graph->backward->replay();
    for (const at::Tensor& gradient : graph->gradients) {
      results.push_back(gradient.defined() ? gradient.detach() : gradient);
    }
    return results;
  }
};

// The gradients of all `parameters`; undefined where there is none.
Tensors differentiate(
    const Tensors& outputs,
    const Tensors& d_outputs,
    const Tensors& parameters) {
  variable_list from;
  variable_list with;
  variable_list to;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (d_outputs[i].defined()) {
      from.push_back(outputs[i]);
      with.push_back(d_outputs[i]);
    }
  }
  for (const at::Tensor& parameter : parameters) {
    if (parameter.requires_grad()) {
      to.push_back(parameter);
    }
  }
  const auto found = torch::autograd::grad(
      from, to, with, /*retain_graph=*/false, /*create_graph=*/false, true);
  Tensors gradients;
  std::size_t next = 0;
  for (const at::Tensor& parameter : parameters) {
    gradients.push_back(
        parameter.requires_grad() ? found[next++] : at::Tensor());
  }
  return gradients;
}

// A parameter's AccumulateGrad node remembers the stream it was created on. A
// node that an earlier autograd graph keeps alive would pull that stream into
// the capture, so parameters get new nodes while this object exists.
class FreshGradAccumulators {
 public:
  explicit FreshGradAccumulators(const Tensors& parameters)
      : parameters_(parameters) {
    for (const at::Tensor& tensor : parameters) {
      saved_.push_back(torch::autograd::impl::try_get_grad_accumulator(tensor));
      set(tensor, {});
    }
  }
  FreshGradAccumulators(const FreshGradAccumulators&) = delete;
  FreshGradAccumulators& operator=(const FreshGradAccumulators&) = delete;
  ~FreshGradAccumulators() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      set(parameters_[i], saved_[i]);
    }
  }

 private:
  static void set(
      const at::Tensor& parameter,
      const std::weak_ptr<torch::autograd::Node>& node) {
    if (parameter.requires_grad()) {
      torch::autograd::impl::set_grad_accumulator(parameter, node);
    }
  }

  const Tensors& parameters_;
  std::vector<std::shared_ptr<torch::autograd::Node>> saved_;
};

// Backward computes in the types that forward chose.
class DisableAutocast {
 public:
  explicit DisableAutocast(c10::DeviceType type)
      : type_(type), before_(at::autocast::is_autocast_enabled(type)) {
    at::autocast::set_autocast_enabled(type, false);
  }
  DisableAutocast(const DisableAutocast&) = delete;
  DisableAutocast& operator=(const DisableAutocast&) = delete;
  ~DisableAutocast() { at::autocast::set_autocast_enabled(type_, before_); }

 private:
  c10::DeviceType type_;
  bool before_;
};

}  // namespace

// The last replayed call; its outputs keep it alive.
struct GraphCache::LastCall {
  c10::weak_intrusive_ptr<PendingCall> call;

  bool waits_for_backward() const {
    const auto strong = call.lock();
    return strong && strong->graph != nullptr;
  }
};

GraphCache::Pause::Pause() {
  ++pauses;
}
GraphCache::Pause::~Pause() {
  --pauses;
}

GraphCache::GraphCache() = default;
GraphCache::~GraphCache() = default;

void GraphCache::report_once(const std::string& reason, const char* severity) {
  if (std::exchange(why_not_, reason).empty()) {
    std::cerr << str_cat(severity, ": CUDA graphs are off: ", reason, "\n")
              << std::flush;
  }
}

Tensors GraphCache::run(
    const std::string& key,
    const Tensors& inputs,
    const Tensors& parameters,
    const Body& body) {
  const c10::Device device = parameters.front().device();
  DeviceBackend* const backend = device_backend_of(device);
  if (pauses > 0 || backend == nullptr ||
      (last_call_ && last_call_->waits_for_backward()) ||
      !at::GradMode::is_enabled() || backend->is_capturing() ||
      !are_on(inputs, device) || !are_on(parameters, device)) {
    return body(inputs);
  }
  clear_if_parameters_moved(parameters);
  auto& graph = graphs_[key_of(key, inputs)];
  if (!graph) {
    graph = std::make_shared<CapturedGraph>();
  }
  if (graph->forward) {
    return replay(graph, inputs, parameters);
  }
  if (!std::exchange(graph->was_called, true) || graph->failed) {
    return body(inputs);
  }
  if (!capture(*graph, inputs, parameters, body)) {
    graph->failed = true;
    return body(inputs);
  }
  if (pool_ == nullptr) {
    pool_owner_ = graph;
    pool_ = graph->forward.get();
  }
  ++num_graphs_;
  return replay(graph, inputs, parameters);
}

// A captured graph refers to parameters by address.
void GraphCache::clear_if_parameters_moved(const Tensors& parameters) {
  std::vector<const void*> addresses;
  addresses.reserve(parameters.size());
  for (const at::Tensor& tensor : parameters) {
    addresses.push_back(tensor.const_data_ptr());
  }
  if (addresses != parameter_addresses_) {
    graphs_.clear();
    pool_owner_.reset();
    pool_ = nullptr;
    num_graphs_ = 0;
    parameter_addresses_ = std::move(addresses);
  }
}

bool GraphCache::capture(
    CapturedGraph& graph,
    const Tensors& inputs,
    const Tensors& parameters,
    const Body& body) {
  if (num_graphs_ == kMaxGraphs) {
    report_once(str_cat(
        "there are more than ", num_graphs_, " combinations of input shapes"));
    return false;
  }
  if (any_has_hooks(parameters)) {
    report_once("some parameters have hooks");
    return false;
  }
  const c10::Device device = parameters.front().device();
  DeviceBackend& backend = *device_backend_of(device);
  const std::int64_t bytes = gradient_bytes(parameters);
  const std::int64_t limit = backend.memory(device.index()).total / 4;
  if (limit > 0 && (num_graphs_ + 1) * bytes > limit) {
    report_once(str_cat(
        "each combination of input shapes needs ",
        format_bytes(static_cast<double>(bytes)),
        " for gradients, but all combinations together may use only a quarter "
        "of the GPU's memory (captured so far: ",
        num_graphs_,
        ")"));
    return false;
  }
  CapturedGraph captured;
  try {
    const FreshGradAccumulators fresh(parameters);
    for (const at::Tensor& input : inputs) {
      captured.inputs.push_back(
          input.defined() ? input.detach().clone() : at::Tensor());
    }
    captured.forward = backend.make_graph(device.index(), pool_);
    Tensors outputs;
    captured.forward->capture([&] { outputs = body(captured.inputs); });
    for (const at::Tensor& output : outputs) {
      captured.outputs.push_back(output.detach());
      captured.d_outputs.push_back(
          output.requires_grad() ? at::zeros_like(output.detach())
                                 : at::Tensor());
      captured.is_zero.push_back(true);
    }
    captured.backward = backend.make_graph(
        device.index(), pool_ != nullptr ? pool_ : captured.forward.get());
    captured.backward->capture([&] {
      const DisableAutocast off(device.type());
      captured.gradients =
          differentiate(outputs, captured.d_outputs, parameters);
    });
  } catch (const std::exception& error) {
    report_once(error_line(error));
    return false;
  }
  captured.was_called = true;
  graph = std::move(captured);
  return true;
}

Tensors GraphCache::replay(
    const std::shared_ptr<CapturedGraph>& graph,
    const Tensors& inputs,
    const Tensors& parameters) {
  {
    const at::NoGradGuard no_grad;
    Tensors to;
    Tensors from;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) {
        to.push_back(graph->inputs[i]);
        from.push_back(inputs[i]);
      }
    }
    copy_all(to, from);
  }
  if (const FusedBlocks* const blocks = fused_blocks()) {
    blocks->before_replay();
  }
  auto call = c10::make_intrusive<PendingCall>();
  call->graph = graph;
  call->parameters = parameters;
  const auto computed = Replay::apply(call, at::TensorList(parameters));
  last_call_ =
      std::make_unique<LastCall>(c10::weak_intrusive_ptr<PendingCall>(call));
  ++num_replays_;
  Tensors results;
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph->outputs.size(); ++i) {
    results.push_back(
        graph->d_outputs[i].defined() ? computed[next++]
        : graph->outputs[i].is_meta() ? graph->outputs[i]
                                      : graph->outputs[i].clone());
  }
  return results;
}

}  // namespace accelerate
