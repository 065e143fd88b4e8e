// SPDX-License-Identifier: Apache-2.0
// The state of a function that is captured and replayed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/graph.h"
#include "accelerator/accelerator_impl.h"
#include "device/device_backend.h"

namespace accelerate {

/// NOTE [Captured steps]
/// 1. The first calls with a new combination of input shapes run eagerly.
/// 2. The next call allocates static input tensors and runs the body once with
///    these tensors while the device captures a graph. No kernel runs yet, but
///    the body's work on the CPU, such as counting the update, is done.
/// 3. This call and all later calls with the same shapes copy their inputs into
///    the static tensors, copy the learning rates to the device, replay the
///    graph, and copy the outputs into tensors that the caller owns.
/// A graph refers to parameters, buffers and optimizer states by address. When
/// one of these tensors has moved, for example after `load_state`, all graphs
/// are dropped. If `obstacle` finds a reason why a step cannot be captured, or
/// if the capture fails, the body runs eagerly.
class detail::GraphedFunction::Impl {
 public:
  Impl(Accelerator::Impl& accelerator, const GraphOptions& options);

  Tensors run(const Tensors& inputs, const Body& body);
  std::int64_t num_graphs() const { return num_graphs_; }
  std::int64_t num_replays() const { return num_replays_; }
  const std::string& why_not() const { return why_not_; }

 private:
  struct CapturedGraph {
    std::int64_t calls = 0;
    bool failed = false;
    std::unique_ptr<DeviceGraph> graph;  // Null until it is captured.
    Tensors inputs;
    Tensors outputs;
    std::int64_t updates = 0;  // Optimizer updates in one call.
  };

  std::string obstacle(const Tensors& inputs) const;
  std::vector<const void*> current_addresses() const;
  void clear_if_moved();
  bool capture(
      CapturedGraph& captured, const Tensors& inputs, const Body& body);
  Tensors replay(CapturedGraph& captured, const Tensors& inputs);
  void set_capturing(bool on);
  bool has_gradients() const;
  void drop_gradients();
  void warn_once(const std::string& reason);

  Accelerator::Impl& accelerator_;
  GraphOptions options_;
  std::map<std::string, CapturedGraph> graphs_;
  std::vector<const void*> addresses_;  // At the last capture.
  DeviceGraph* pool_ = nullptr;         // All graphs share its memory pool.
  std::int64_t num_graphs_ = 0;
  std::int64_t num_replays_ = 0;
  std::string why_not_;
};

}  // namespace accelerate
