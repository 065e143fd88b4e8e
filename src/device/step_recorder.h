// SPDX-License-Identifier: Apache-2.0
// Captures a function of tensors as device graphs, once for each combination of
// input shapes, and replays the graphs.
//
//     DifferentiableStep step(parameters);  // What a capture contains.
//     StepRecorder recorder(step);
//     auto outputs = recorder.run(key, inputs, body);
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "accelerate/recordable_module.h"
#include "device/device_backend.h"

namespace accelerate {

/// Creates the graphs of one capture.
class CaptureDevice {
 public:
  CaptureDevice(
      DeviceBackend& backend,
      c10::Device device,
      const DeviceGraph* pool,
      std::int64_t num_steps)
      : backend_(backend),
        device_(device),
        pool_(pool),
        num_steps_(num_steps) {}

  c10::Device device() const { return device_; }
  /// Returns the number of steps that the recorder has captured and not
  /// dropped.
  std::int64_t num_steps() const { return num_steps_; }
  /// Returns the memory of the device in bytes; 0 if it is unknown.
  std::int64_t total_memory() const {
    return backend_.memory(device_.index()).total;
  }
  /// Creates a graph that shares a memory pool with all graphs of the recorder.
  std::unique_ptr<DeviceGraph> make_graph();
  /// Returns the graph whose memory pool later graphs share; null before the
  /// first graph.
  const DeviceGraph* pool() const { return pool_; }

 private:
  DeviceBackend& backend_;
  c10::Device device_;
  const DeviceGraph* pool_;
  std::int64_t num_steps_;
};

/// The graphs of one captured call.
class CapturedStep {
 public:
  CapturedStep() = default;
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;
  virtual ~CapturedStep() = default;

  /// Replays the graphs. The recorder updates the static inputs before it calls
  /// this function. The caller owns the results; a later replay does not change
  /// them.
  virtual std::vector<at::Tensor> replay() = 0;
};

/// Decides for a `StepRecorder` what is captured for a call, and when a call
/// must run eagerly.
class RecorderClient {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Computes the outputs of a call. A replay does not call this function, so
  /// code in the body that runs on the CPU has no effect in a replay. Must not
  /// return undefined tensors.
  using Body = std::function<Tensors(const Tensors& inputs)>;

  RecorderClient() = default;
  RecorderClient(const RecorderClient&) = delete;
  RecorderClient& operator=(const RecorderClient&) = delete;
  virtual ~RecorderClient() = default;

  /// Returns the device whose work is captured.
  virtual c10::Device device() const = 0;
  /// Returns the reason why a call must run eagerly, or nothing if the call may
  /// be captured or replayed. An empty reason is not reported.
  virtual std::optional<std::string> why_eager(const Tensors& inputs) = 0;
  /// Returns the addresses that captured graphs contain, apart from the
  /// addresses of the inputs. When a returned address changes, all graphs are
  /// dropped.
  virtual std::vector<const void*> addresses() = 0;
  /// Captures `body(inputs)`. Each replay reads the same `inputs`, with new
  /// values. The GPU kernels that are launched during a capture do not run, so
  /// the recorder replays the step right after the capture.
  ///
  /// Throws if the call cannot be captured. The first line of the message is
  /// the reason that is reported.
  virtual std::shared_ptr<CapturedStep> capture(
      CaptureDevice& device, const Tensors& inputs, const Body& body) = 0;
};

struct StepRecorderOptions {
  /// With a disabled policy, all calls run eagerly.
  RecordPolicy policy = {.enabled = true};
  /// The number of calls with the same key and shapes that run eagerly before a
  /// call is captured. During an eager call, libraries may select their
  /// kernels; a capture does not allow that.
  std::int64_t warmup_calls = 1;
  /// The maximum number of captured calls. Once this number is reached, calls
  /// with other shapes run eagerly.
  std::int64_t max_graphs = 32;
  /// Whether inputs that differ only in their strides are captured separately.
  bool distinguishes_strides = false;
};

/// NOTE [Step recorder]
/// 1. The first calls with a given key and given input shapes run eagerly.
/// 2. The next call copies its inputs into static tensors, and the client
///    captures the body with these tensors. All graphs share a memory pool.
/// 3. This call and all later calls with the same key and shapes copy their
///    inputs into the static tensors and replay the graphs.
/// Graphs refer to memory by address. When one of the client's addresses
/// changes, all graphs are dropped and the recorder starts again. A call that
/// cannot be captured runs eagerly, and the first reason is reported. Calls
/// inside another capture, or inside the body of another recorder, also run
/// eagerly.
///
/// A body may contain collectives if the client allows the capture and the
/// device can capture collectives. The recorder does not check that all ranks
/// capture the same calls.
///
/// Thread safety: only one thread at a time may use the object.
class ACCELERATE_API StepRecorder {
 public:
  using Tensors = RecorderClient::Tensors;
  using Body = RecorderClient::Body;

  /// `client` must outlive the recorder.
  explicit StepRecorder(
      RecorderClient& client, StepRecorderOptions options = {});
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;
  ~StepRecorder();

  /// Calls `body(inputs)`, or replays the graphs that were captured from
  /// `body`. `key` must identify everything that `body` depends on, except
  /// memory that the client lists and the types and shapes of `inputs`. An
  /// undefined input is passed to `body` as an undefined tensor.
  Tensors run(const std::string& key, const Tensors& inputs, const Body& body);

  /// Returns whether the policy allows captures. If not, reports the policy's
  /// `disabled_reason`.
  bool is_enabled();
  /// Makes `why_not` return `reason`, the reason why calls run eagerly. Also
  /// prints the reason as a note, but only if no reason has been printed
  /// before.
  void decline(const std::string& reason) { report_once(reason, "note"); }

  /// Returns the number of captured calls that have not been dropped.
  std::int64_t num_graphs() const { return num_graphs_; }
  /// Returns the number of captures since the recorder was created.
  std::int64_t num_captures() const { return num_captures_; }
  /// Returns the number of replays, including the replay that follows each
  /// capture.
  std::int64_t num_replays() const { return num_replays_; }
  /// Returns the most recent reason why a call could not be captured. Empty if
  /// there was no such call.
  const std::string& why_not() const { return why_not_; }

 private:
  // All calls with one key and one combination of shapes.
  struct Entry {
    std::int64_t eager_calls = 0;
    bool failed = false;
    Tensors inputs;  // The static tensors that replays read.
    std::shared_ptr<CapturedStep> step;  // Null until the call is captured.
  };

  bool must_run_eagerly(const Tensors& inputs);
  Tensors run_eagerly(const Tensors& inputs, const Body& body) const;
  std::string key_of(const std::string& key, const Tensors& inputs) const;
  bool capture(
      Entry& entry,
      DeviceBackend& backend,
      const Tensors& inputs,
      const Body& body);
  Tensors replay(
      const Entry& entry, DeviceBackend& backend, const Tensors& inputs);
  void drop_if_moved();
  void report_once(const std::string& reason, const char* severity = "warning");

  RecorderClient& client_;
  StepRecorderOptions options_;
  std::map<std::string, Entry> entries_;
  // The client's addresses at the last capture.
  std::vector<const void*> addresses_;
  const DeviceGraph* pool_ = nullptr;
  std::shared_ptr<CapturedStep> pool_owner_;  // Keeps `pool_` alive.
  std::int64_t num_graphs_ = 0;
  std::int64_t num_captures_ = 0;
  std::int64_t num_replays_ = 0;
  std::string why_not_;
};

}  // namespace accelerate
