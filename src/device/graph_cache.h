// SPDX-License-Identifier: Apache-2.0
// Captures the forward and the backward of a function as two device graphs for
// each combination of input shapes, and replays these graphs.
//
//     GraphCache graphs;
//     auto outputs = graphs.run(key, inputs, parameters, body);
//     outputs[0].backward();  // As if `body` had been called.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"
#include "device/device_backend.h"

namespace accelerate {

/// NOTE [Graph cache]
/// 1. The first call with a given key and given input shapes runs eagerly. This
///    call chooses the kernels.
/// 2. The second call allocates static input tensors. It captures forward and
///    then backward into two graphs that share a memory pool.
/// 3. Every call from the second on copies its inputs into the static input
///    tensors, replays the forward graph, and copies the outputs into tensors
///    that the caller owns. The autograd graph of the outputs is one node; its
///    backward replays the backward graph. The captured gradients become the
///    parameters' `.grad` without a copy. The next backward overwrites the
///    captured gradients, so if a `.grad` still uses their memory, that `.grad`
///    is cloned first.
/// The next replay of forward would overwrite the activations that a pending
/// backward needs. Therefore, a call runs eagerly while an earlier call waits
/// for its backward. Calls inside another capture also run eagerly, and so do
/// calls that cannot be captured. The first reason why a call cannot be
/// captured is reported.
///
/// Thread safety: only one thread at a time may use the object. Backward may
/// run on another thread.
class ACCELERATE_API GraphCache {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Computes the outputs from `inputs` and the parameters. A replay does not
  /// call this function, so code in it that runs on the CPU has no effect in a
  /// replay. Must not return undefined tensors.
  using Body = std::function<Tensors(const Tensors& inputs)>;

  /// The maximum number of captured pairs of forward and backward graphs. The
  /// limit is lower if the gradients of all pairs would take more than a
  /// quarter of the device's memory.
  static constexpr std::int64_t kMaxGraphs = 32;

  GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;
  ~GraphCache();

  /// Calls `body(inputs)`, or replays the graph captured from it. `key` must
  /// identify everything that `body` depends on, except the parameters and the
  /// types and shapes of `inputs`. A call is captured only if all `inputs` and
  /// `parameters` are on one device. An undefined input is passed to `body` as
  /// an undefined tensor.
  Tensors run(
      const std::string& key,
      const Tensors& inputs,
      const Tensors& parameters,
      const Body& body);

  /// Makes `why_not` return `reason`, which says why calls run eagerly. Also
  /// prints the reason as a note, but only if no reason has been printed
  /// before.
  void decline(const std::string& reason) { report_once(reason, "note"); }

  /// The number of captured pairs of forward and backward graphs.
  std::int64_t num_graphs() const { return num_graphs_; }
  std::int64_t num_replays() const { return num_replays_; }
  /// The most recent reason why a call could not be captured. Empty if there
  /// was no such call.
  const std::string& why_not() const { return why_not_; }

  /// While a thread has a `Pause` object, all calls to `run` on that thread run
  /// eagerly.
  class ACCELERATE_API Pause {
   public:
    Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();
  };

  struct CapturedGraph;
  struct LastCall;

 private:
  bool capture(
      CapturedGraph& graph,
      const Tensors& inputs,
      const Tensors& parameters,
      const Body& body);
  Tensors replay(
      const std::shared_ptr<CapturedGraph>& graph,
      const Tensors& inputs,
      const Tensors& parameters);
  void clear_if_parameters_moved(const Tensors& parameters);
  void report_once(const std::string& reason, const char* severity = "warning");

  std::map<std::string, std::shared_ptr<CapturedGraph>> graphs_;
  std::vector<const void*> parameter_addresses_;
  DeviceGraph* pool_ = nullptr;  // All graphs share its memory pool.
  std::shared_ptr<CapturedGraph> pool_owner_;  // Keeps `pool_` alive.
  std::unique_ptr<LastCall> last_call_;
  std::int64_t num_graphs_ = 0;
  std::int64_t num_replays_ = 0;
  std::string why_not_;
};

}  // namespace accelerate
