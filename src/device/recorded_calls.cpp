// SPDX-License-Identifier: Apache-2.0
#include "device/recorded_calls.h"

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

struct RecordedCalls::Recording {
  bool was_called = false;
  bool failed = false;
  std::unique_ptr<DeviceGraph> forward;  // Null until it is recorded.
  std::unique_ptr<DeviceGraph> backward;
  Tensors inputs;
  Tensors outputs;
  Tensors d_outputs;        // Undefined where nothing is differentiated.
  std::vector<bool> clear;  // Which of those are zero now.
  Tensors gradients;        // Of the parameters; undefined: none.
};

namespace {

using Tensors = RecordedCalls::Tensors;
using Recording = RecordedCalls::Recording;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One call, from its forward to its backward.
struct Flight : torch::CustomClassHolder {
  std::shared_ptr<Recording> recording;  // Null once backward has begun.
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

bool lie_on(const Tensors& tensors, c10::Device device) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const auto& one) {
    return !one.defined() || one.device() == device;
  });
}

// Each recording has gradients of its own.
std::int64_t gradient_bytes(const Tensors& parameters) {
  std::int64_t bytes = 0;
  for (const at::Tensor& one : parameters) {
    bytes += one.requires_grad() ? static_cast<std::int64_t>(one.nbytes()) : 0;
  }
  return bytes;
}

// Hooks see each gradient once; a recording would show it to them twice.
bool have_hooks(const Tensors& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& one) {
    return !torch::autograd::impl::hooks(one).empty();
  });
}

// The device writes new gradients where the last ones lie. What stands in
// `.grad` there, a sum over micro-steps say, goes to a place of its own.
void move_away(const at::Tensor& parameter, const at::Tensor& gradient) {
  at::Tensor& sum = parameter.mutable_grad();
  if (sum.defined() && gradient.defined() && sum.is_alias_of(gradient)) {
    sum = sum.clone();
  }
}

void set_d_outputs(Recording& recording, const variable_list& d) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < recording.outputs.size(); ++i) {
    const at::Tensor& to = recording.d_outputs[i];
    if (!to.defined()) {
      continue;
    }
    const at::Tensor& from = d[next++];
    if (from.defined()) {
      to.copy_(from);
    } else if (!recording.clear[i]) {
      to.zero_();
    }
    recording.clear[i] = !from.defined();
  }
}

// The device copies tensors of one type in one start, and a start is what a
// copy of a few bytes costs.
void copy_all(const Tensors& to, const Tensors& from) {
  if (!to.empty()) {
    at::_foreach_copy_(to, from);
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& one : tensors) {
    copies.push_back(at::empty_like(one));
  }
  copy_all(copies, tensors);
  return copies;
}

// What stands behind the results of a recorded call.
class Replay : public torch::autograd::Function<Replay> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const c10::intrusive_ptr<Flight>& flight,
      at::TensorList /*parameters*/) {
    context->set_materialize_grads(false);
    context->saved_data["flight"] = c10::IValue::make_capsule(flight);
    flight->recording->forward->replay();
    Tensors outputs;
    for (std::size_t i = 0; i < flight->recording->outputs.size(); ++i) {
      if (flight->recording->d_outputs[i].defined()) {
        outputs.push_back(flight->recording->outputs[i]);
      }
    }
    return copies_of(outputs);
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& d) {
    auto flight = c10::static_intrusive_pointer_cast<Flight>(
        context->saved_data["flight"].toCapsule());
    if (!flight->recording) {
      throw StateError(
          "backward a second time through a step that the device recorded",
          "set `record_steps` to false in the AcceleratorOptions");
    }
    const at::NoGradGuard no_grad;
    const auto recording = std::exchange(flight->recording, nullptr);
    set_d_outputs(*recording, d);
    variable_list results = {at::Tensor()};
    for (std::size_t i = 0; i < flight->parameters.size(); ++i) {
      move_away(flight->parameters[i], recording->gradients[i]);
    }
    recording->backward->replay();
    for (const at::Tensor& gradient : recording->gradients) {
      results.push_back(gradient.defined() ? gradient.detach() : gradient);
    }
    return results;
  }
};

// The gradients of what `outputs` were computed from, as recorded.
Tensors differentiate(
    const Tensors& outputs, const Tensors& d_outputs, const Tensors& all) {
  variable_list from;
  variable_list with;
  variable_list to;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (d_outputs[i].defined()) {
      from.push_back(outputs[i]);
      with.push_back(d_outputs[i]);
    }
  }
  for (const at::Tensor& one : all) {
    if (one.requires_grad()) {
      to.push_back(one);
    }
  }
  const auto found = torch::autograd::grad(
      from, to, with, /*retain_graph=*/false, /*create_graph=*/false, true);
  Tensors gradients;
  std::size_t next = 0;
  for (const at::Tensor& one : all) {
    gradients.push_back(one.requires_grad() ? found[next++] : at::Tensor());
  }
  return gradients;
}

// A parameter's node that takes its gradient remembers the stream it was made
// on. One of an earlier graph that still lives would draw its own stream into
// the recording: while this lives, parameters get new ones.
class NewAccumulators {
 public:
  explicit NewAccumulators(const Tensors& parameters)
      : parameters_(parameters) {
    for (const at::Tensor& one : parameters) {
      known_.push_back(torch::autograd::impl::try_get_grad_accumulator(one));
      set(one, {});
    }
  }
  NewAccumulators(const NewAccumulators&) = delete;
  NewAccumulators& operator=(const NewAccumulators&) = delete;
  ~NewAccumulators() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      set(parameters_[i], known_[i]);
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
  std::vector<std::shared_ptr<torch::autograd::Node>> known_;
};

// Gradients are computed in the types that forward chose.
class WithoutAutocast {
 public:
  explicit WithoutAutocast(c10::DeviceType type)
      : type_(type), before_(at::autocast::is_autocast_enabled(type)) {
    at::autocast::set_autocast_enabled(type, false);
  }
  WithoutAutocast(const WithoutAutocast&) = delete;
  WithoutAutocast& operator=(const WithoutAutocast&) = delete;
  ~WithoutAutocast() { at::autocast::set_autocast_enabled(type_, before_); }

 private:
  c10::DeviceType type_;
  bool before_;
};

}  // namespace

// The last call, while its results live.
struct RecordedCalls::Waiting {
  c10::weak_intrusive_ptr<Flight> flight;

  bool for_backward() const {
    const auto strong = flight.lock();
    return strong && strong->recording != nullptr;
  }
};

RecordedCalls::Pause::Pause() {
  ++pauses;
}
RecordedCalls::Pause::~Pause() {
  --pauses;
}

RecordedCalls::RecordedCalls() = default;
RecordedCalls::~RecordedCalls() = default;

void RecordedCalls::say(const std::string& why, const char* how) {
  if (std::exchange(why_not_, why).empty()) {
    std::cerr << str_cat(how, ": steps are not recorded: ", why, "\n")
              << std::flush;
  }
}

Tensors RecordedCalls::run(
    const std::string& key,
    const Tensors& inputs,
    const Tensors& parameters,
    const Body& body) {
  const c10::Device where = parameters.front().device();
  DeviceBackend* const device = device_backend_of(where);
  if (pauses > 0 || device == nullptr ||
      (waiting_ && waiting_->for_backward()) || !at::GradMode::is_enabled() ||
      device->is_recording() || !lie_on(inputs, where) ||
      !lie_on(parameters, where)) {
    return body(inputs);
  }
  forget_if_moved(parameters);
  auto& recording = recordings_[key_of(key, inputs)];
  if (!recording) {
    recording = std::make_shared<Recording>();
  }
  if (recording->forward) {
    return replay(recording, inputs, parameters);
  }
  if (!std::exchange(recording->was_called, true) || recording->failed) {
    return body(inputs);
  }
  if (!record(*recording, inputs, parameters, body)) {
    recording->failed = true;
    return body(inputs);
  }
  if (first_ == nullptr) {
    keeps_ = recording;
    first_ = recording->forward.get();
  }
  ++recorded_;
  return replay(recording, inputs, parameters);
}

// A recording knows parameters by where they lie.
void RecordedCalls::forget_if_moved(const Tensors& parameters) {
  std::vector<const void*> places;
  places.reserve(parameters.size());
  for (const at::Tensor& one : parameters) {
    places.push_back(one.const_data_ptr());
  }
  if (places != places_) {
    recordings_.clear();
    keeps_.reset();
    first_ = nullptr;
    recorded_ = 0;
    places_ = std::move(places);
  }
}

bool RecordedCalls::record(
    Recording& recording,
    const Tensors& inputs,
    const Tensors& parameters,
    const Body& body) {
  if (recorded_ == kMostRecordings) {
    say(str_cat("there are more than ", recorded_, " combinations of shapes"));
    return false;
  }
  if (have_hooks(parameters)) {
    say("parameters have hooks");
    return false;
  }
  const c10::Device where = parameters.front().device();
  DeviceBackend& device = *device_backend_of(where);
  const std::int64_t bytes = gradient_bytes(parameters);
  const std::int64_t room = device.memory(where.index()).total / 4;
  if (room > 0 && (recorded_ + 1) * bytes > room) {
    say(str_cat(
        "with ",
        format_bytes(static_cast<double>(bytes)),
        " of gradients for each, more than ",
        recorded_,
        " combinations of shapes would take over a quarter of the GPU's "
        "memory"));
    return false;
  }
  Recording made;
  try {
    const NewAccumulators only(parameters);
    for (const at::Tensor& input : inputs) {
      made.inputs.push_back(
          input.defined() ? input.detach().clone() : at::Tensor());
    }
    made.forward = device.make_graph(where.index(), first_);
    Tensors live;
    made.forward->capture([&] { live = body(made.inputs); });
    for (const at::Tensor& output : live) {
      made.outputs.push_back(output.detach());
      made.d_outputs.push_back(
          output.requires_grad() ? at::zeros_like(output.detach())
                                 : at::Tensor());
      made.clear.push_back(true);
    }
    made.backward = device.make_graph(
        where.index(), first_ != nullptr ? first_ : made.forward.get());
    made.backward->capture([&] {
      const WithoutAutocast off(where.type());
      made.gradients = differentiate(live, made.d_outputs, parameters);
    });
  } catch (const std::exception& error) {
    say(error_line(error));
    return false;
  }
  made.was_called = true;
  recording = std::move(made);
  return true;
}

Tensors RecordedCalls::replay(
    const std::shared_ptr<Recording>& recording,
    const Tensors& inputs,
    const Tensors& parameters) {
  {
    const at::NoGradGuard no_grad;
    Tensors to;
    Tensors from;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) {
        to.push_back(recording->inputs[i]);
        from.push_back(inputs[i]);
      }
    }
    copy_all(to, from);
  }
  if (const FusedBlocks* const blocks = fused_blocks()) {
    blocks->refresh();
  }
  auto flight = c10::make_intrusive<Flight>();
  flight->recording = recording;
  flight->parameters = parameters;
  const auto computed = Replay::apply(flight, at::TensorList(parameters));
  waiting_ = std::make_unique<Waiting>(c10::weak_intrusive_ptr<Flight>(flight));
  ++replays_;
  Tensors results;
  std::size_t next = 0;
  for (std::size_t i = 0; i < recording->outputs.size(); ++i) {
    results.push_back(
        recording->d_outputs[i].defined() ? computed[next++]
        : recording->outputs[i].is_meta() ? recording->outputs[i]
                                          : recording->outputs[i].clone());
  }
  return results;
}

}  // namespace accelerate
