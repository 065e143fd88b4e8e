// SPDX-License-Identifier: Apache-2.0
#include "device/differentiable_step.h"

#include <algorithm>
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

namespace accelerate {

struct DifferentiableStep::Captured : CapturedStep,
                                      std::enable_shared_from_this<Captured> {
  explicit Captured(DifferentiableStep& step) : owner(step) {}
  Tensors replay() override;

  DifferentiableStep& owner;
  std::unique_ptr<DeviceGraph> forward;
  std::unique_ptr<DeviceGraph> backward;
  Tensors outputs;
  Tensors d_outputs;          // Undefined for outputs without a gradient.
  std::vector<bool> is_zero;  // Whether each of `d_outputs` is zero now.
  Tensors gradients;  // One per parameter; undefined if it has no gradient.
};

namespace {

using Tensors = DifferentiableStep::Tensors;
using Captured = DifferentiableStep::Captured;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One replayed call, from its forward to its backward.
struct PendingCall : torch::CustomClassHolder {
  std::shared_ptr<Captured> step;  // Null once backward has started.
  Tensors parameters;
};

bool are_on(const Tensors& tensors, c10::Device device) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return !tensor.defined() || tensor.device() == device;
  });
}

// Each captured step has its own gradients.
std::int64_t gradient_bytes(const Tensors& parameters) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : parameters) {
    bytes +=
        tensor.requires_grad() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  }
  return bytes;
}

// Hooks must run once per gradient; with a captured step, hooks would run
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

void set_d_outputs(Captured& step, const variable_list& d) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const at::Tensor& to = step.d_outputs[i];
    if (!to.defined()) {
      continue;
    }
    const at::Tensor& from = d[next++];
    if (from.defined()) {
      to.copy_(from);
    } else if (!step.is_zero[i]) {
      to.zero_();
    }
    step.is_zero[i] = !from.defined();
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
    call->step->forward->replay();
    Tensors outputs;
    for (std::size_t i = 0; i < call->step->outputs.size(); ++i) {
      if (call->step->d_outputs[i].defined()) {
        outputs.push_back(call->step->outputs[i]);
      }
    }
    return copies_of(outputs);
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& d) {
    auto call = c10::static_intrusive_pointer_cast<PendingCall>(
        context->saved_data["call"].toCapsule());
    if (!call->step) {
      throw StateError(
          "backward was called twice for a step that ran as a CUDA graph",
          "call backward once, or set `record_steps` to false in "
          "`AcceleratorOptions`");
    }
    const at::NoGradGuard no_grad;
    const auto step = std::exchange(call->step, nullptr);
    set_d_outputs(*step, d);
    variable_list results = {at::Tensor()};
    for (std::size_t i = 0; i < call->parameters.size(); ++i) {
      detach_accumulated_gradient(call->parameters[i], step->gradients[i]);
    }
    step->backward->replay();
    for (const at::Tensor& gradient : step->gradients) {
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
// the capture, so this class gives parameters new nodes while its object
// exists.
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

// The backward pass computes in the types that the forward pass used.
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

// The last replayed call. The outputs of the call own the call.
struct DifferentiableStep::LastCall {
  c10::weak_intrusive_ptr<PendingCall> call;

  bool waits_for_backward() const {
    const auto strong = call.lock();
    return strong && strong->step != nullptr;
  }
};

DifferentiableStep::DifferentiableStep(Tensors parameters)
    : parameters_(std::move(parameters)) {
}

DifferentiableStep::~DifferentiableStep() = default;

c10::Device DifferentiableStep::device() const {
  return parameters_.front().device();
}

std::optional<std::string> DifferentiableStep::why_eager(
    const Tensors& inputs) {
  if ((last_call_ && last_call_->waits_for_backward()) ||
      !at::GradMode::is_enabled() || !are_on(inputs, device()) ||
      !are_on(parameters_, device())) {
    return "";
  }
  return std::nullopt;
}

std::vector<const void*> DifferentiableStep::addresses() {
  std::vector<const void*> addresses;
  addresses.reserve(parameters_.size());
  for (const at::Tensor& tensor : parameters_) {
    addresses.push_back(tensor.const_data_ptr());
  }
  return addresses;
}

void DifferentiableStep::check_parameters(const CaptureDevice& device) const {
  if (any_has_hooks(parameters_)) {
    throw UnsupportedError("some parameters have hooks");
  }
  const std::int64_t bytes = gradient_bytes(parameters_);
  const std::int64_t limit = device.total_memory() / 4;
  if (limit > 0 && (device.num_steps() + 1) * bytes > limit) {
    throw UnsupportedError(str_cat(
        "capturing another combination of input shapes would need ",
        format_bytes(static_cast<double>(bytes)),
        " more for gradients; with the ",
        device.num_steps(),
        " combinations already captured, that exceeds a quarter of the GPU's "
        "memory"));
  }
}

std::shared_ptr<CapturedStep> DifferentiableStep::capture(
    CaptureDevice& device, const Tensors& inputs, const Body& body) {
  check_parameters(device);
  auto step = std::make_shared<Captured>(*this);
  const FreshGradAccumulators fresh(parameters_);
  Tensors outputs;
  step->forward = device.make_graph();
  step->forward->capture([&] { outputs = body(inputs); });
  for (const at::Tensor& output : outputs) {
    step->outputs.push_back(output.detach());
    step->d_outputs.push_back(
        output.requires_grad() ? at::zeros_like(output.detach())
                               : at::Tensor());
    step->is_zero.push_back(true);
  }
  step->backward = device.make_graph();
  step->backward->capture([&] {
    const DisableAutocast off(device.device().type());
    step->gradients = differentiate(outputs, step->d_outputs, parameters_);
  });
  return step;
}

Tensors DifferentiableStep::Captured::replay() {
  auto call = c10::make_intrusive<PendingCall>();
  call->step = shared_from_this();
  call->parameters = owner.parameters_;
  const auto computed = Replay::apply(call, at::TensorList(owner.parameters_));
  owner.last_call_ =
      std::make_unique<LastCall>(c10::weak_intrusive_ptr<PendingCall>(call));
  Tensors results;
  std::size_t next = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(
        d_outputs[i].defined() ? computed[next++] : outputs[i].clone());
  }
  return results;
}

}  // namespace accelerate
