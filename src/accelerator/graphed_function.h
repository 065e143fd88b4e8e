// SPDX-License-Identifier: Apache-2.0
// The state behind a function that is recorded and replayed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/graph.h"
#include "accelerator/accelerator_impl.h"
#include "device/device_backend.h"

namespace accelerate {

/// NOTE [Recorded steps]
/// 1. The first calls with some shapes run as they are.
/// 2. Then the inputs get tensors of their own, and the body runs once more
///    with those while the device records: it starts nothing, but all that the
///    body does on the host (counting the update, say) happens now.
/// 3. Each call copies its inputs there, brings what the host decides up to
///    date (learning rates lie in tensors), starts the recording, and copies
///    the results into tensors of the caller's.
/// A recording knows parameters and the optimizers' state by where they lie:
/// when one lies elsewhere, after `load_state` say, all are forgotten.
/// What a recording cannot contain is refused before (`obstacle`), or makes
/// recording fail, after which the body runs as it is.
class detail::GraphedFunction::Impl {
 public:
  Impl(Accelerator::Impl& run, const GraphOptions& options);

  Tensors run(const Tensors& inputs, const Body& body);
  std::int64_t num_graphs() const { return graphs_; }
  std::int64_t num_replays() const { return replays_; }
  const std::string& why_not() const { return why_not_; }

 private:
  struct Recording {
    std::int64_t calls = 0;
    bool failed = false;
    std::unique_ptr<DeviceGraph> graph;  // Null until it is recorded.
    Tensors inputs;
    Tensors outputs;
    std::int64_t updates = 0;  // of the optimizers, by each call
  };

  std::string obstacle(const Tensors& inputs) const;
  std::vector<const void*> places_now() const;
  void forget_if_moved();
  bool record(Recording& recording, const Tensors& inputs, const Body& body);
  Tensors replay(Recording& recording, const Tensors& inputs);
  void set_recording(bool on);
  bool has_gradients() const;
  void drop_gradients();
  void say(const std::string& why);

  Accelerator::Impl& run_;
  GraphOptions options_;
  std::map<std::string, Recording> recordings_;
  std::vector<const void*> places_;  // when the last one was made
  DeviceGraph* first_ = nullptr;     // Its memory is shared by all.
  std::int64_t graphs_ = 0;
  std::int64_t replays_ = 0;
  std::string why_not_;
};

}  // namespace accelerate
