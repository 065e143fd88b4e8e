// SPDX-License-Identifier: Apache-2.0
#include "device/step_recorder.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include "base/message.h"
#include "base/str_cat.h"
#include "device/device_library.h"
#include "device/error_line.h"
#include "device/fused_blocks.h"

namespace accelerate {
namespace {

using Tensors = StepRecorder::Tensors;

// The number of nested recorder bodies that this thread is running.
thread_local int recorder_depth = 0;

class InsideRecorder {
 public:
  InsideRecorder() { ++recorder_depth; }
  InsideRecorder(const InsideRecorder&) = delete;
  InsideRecorder& operator=(const InsideRecorder&) = delete;
  ~InsideRecorder() { --recorder_depth; }
};

// Tensors of the same type are copied in one kernel launch, because the launch
// is most of the cost of a copy of a few bytes.
void copy_defined(const Tensors& to, const Tensors& from) {
  const at::NoGradGuard no_grad;
  Tensors defined_to;
  Tensors defined_from;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].defined()) {
      defined_to.push_back(to[i]);
      defined_from.push_back(from[i]);
    }
  }
  if (!defined_to.empty()) {
    at::_foreach_copy_(defined_to, defined_from);
  }
}

Tensors clones_of(const Tensors& tensors) {
  Tensors clones;
  for (const at::Tensor& tensor : tensors) {
    clones.push_back(tensor.defined() ? tensor.detach().clone() : at::Tensor());
  }
  return clones;
}

}  // namespace

std::unique_ptr<DeviceGraph> CaptureDevice::make_graph() {
  auto graph = backend_.make_graph(device_.index(), pool_);
  if (pool_ == nullptr) {
    pool_ = graph.get();
  }
  return graph;
}

StepRecorder::StepRecorder(RecorderClient& client, StepRecorderOptions options)
    : client_(client), options_(std::move(options)) {
}

StepRecorder::~StepRecorder() = default;

void StepRecorder::report_once(
    const std::string& reason, const char* severity) {
  if (std::exchange(why_not_, reason).empty()) {
    print_line(str_cat(severity, ": CUDA graphs are off: ", reason));
  }
}

bool StepRecorder::is_enabled() {
  if (!options_.policy.enabled && !options_.policy.disabled_reason.empty()) {
    decline(options_.policy.disabled_reason);
  }
  return options_.policy.enabled;
}

bool StepRecorder::must_run_eagerly(const Tensors& inputs) {
  if (recorder_depth > 0 || !is_enabled()) {
    return true;
  }
  const auto reason = client_.why_eager(inputs);
  if (reason && !reason->empty()) {
    report_once(*reason);
  }
  return reason.has_value();
}

Tensors StepRecorder::run_eagerly(
    const Tensors& inputs, const Body& body) const {
  const InsideRecorder inside;
  return body(inputs);
}

Tensors StepRecorder::run(
    const std::string& key, const Tensors& inputs, const Body& body) {
  if (must_run_eagerly(inputs)) {
    return run_eagerly(inputs, body);
  }
  DeviceBackend* const backend = device_backend_of(client_.device());
  if (backend == nullptr || backend->is_capturing()) {
    return run_eagerly(inputs, body);
  }
  drop_if_moved();
  Entry& entry = entries_[key_of(key, inputs)];
  if (entry.step) {
    return replay(entry, *backend, inputs);
  }
  if (entry.failed || entry.eager_calls++ < options_.warmup_calls) {
    return run_eagerly(inputs, body);
  }
  if (!capture(entry, *backend, inputs, body)) {
    entry.failed = true;
    return run_eagerly(inputs, body);
  }
  return replay(entry, *backend, inputs);
}

// The key contains all types and sizes as bytes. Each list starts with its
// length, so that different inputs cannot have the same key.
std::string StepRecorder::key_of(
    const std::string& key, const Tensors& inputs) const {
  std::string all = key;
  const auto add = [&](std::int64_t value) {
    all.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) {
      add(-1);
      continue;
    }
    add(static_cast<std::int64_t>(input.scalar_type()));
    add(input.dim());
    for (const std::int64_t size : input.sizes()) {
      add(size);
    }
    if (options_.distinguishes_strides) {
      for (const std::int64_t stride : input.strides()) {
        add(stride);
      }
    }
  }
  return all;
}

void StepRecorder::drop_if_moved() {
  if (num_graphs_ > 0 && addresses_ != client_.addresses()) {
    entries_.clear();
    pool_owner_.reset();
    pool_ = nullptr;
    num_graphs_ = 0;
  }
}

bool StepRecorder::capture(
    Entry& entry,
    DeviceBackend& backend,
    const Tensors& inputs,
    const Body& body) {
  if (num_graphs_ == options_.max_graphs) {
    report_once(str_cat(
        "there are more than ",
        num_graphs_,
        " combinations of input shapes; graphs stay on only for the first ",
        num_graphs_,
        " of them"));
    return false;
  }
  CaptureDevice device(backend, client_.device(), pool_, num_graphs_);
  try {
    const InsideRecorder inside;
    Tensors static_inputs = clones_of(inputs);
    entry.step = client_.capture(device, static_inputs, body);
    entry.inputs = std::move(static_inputs);
  } catch (const std::exception& error) {
    report_once(error_line(error));
    return false;
  }
  if (pool_ == nullptr) {
    pool_ = device.pool();
    pool_owner_ = entry.step;
  }
  addresses_ = client_.addresses();
  ++num_graphs_;
  ++num_captures_;
  return true;
}

Tensors StepRecorder::replay(
    const Entry& entry, DeviceBackend& backend, const Tensors& inputs) {
  copy_defined(entry.inputs, inputs);
  if (const FusedBlocks* const blocks = backend.fused_blocks()) {
    blocks->before_replay();
  }
  Tensors results = entry.step->replay();
  ++num_replays_;
  return results;
}

}  // namespace accelerate
