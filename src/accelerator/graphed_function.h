// SPDX-License-Identifier: Apache-2.0
// A whole training step that is captured and replayed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/graph.h"
#include "accelerator/accelerator_impl.h"
#include "device/step_recorder.h"

namespace accelerate {

/// NOTE [Captured steps]
/// The recorder decides which calls are captured; see NOTE [Step recorder].
/// Here, a capture is one CUDA graph of everything that the body does: forward,
/// backward, and the optimizer's step. The body's work on the CPU, such as
/// counting the update, is not part of the graph. Each replay therefore copies
/// the learning rates to the device, and counts the updates that the graph
/// contains. A graph refers to parameters, buffers and optimizer states by
/// address. `addresses` returns these addresses, because operations such as
/// `load_state` may change them.
class detail::GraphedFunction::Impl : private RecorderClient {
 public:
  Impl(Accelerator::Impl& accelerator, const GraphOptions& options);

  Tensors run(const Tensors& inputs, const Body& body);
  std::int64_t num_graphs() const { return recorder_.num_graphs(); }
  /// Returns the number of replays, not counting the replay right after each
  /// capture.
  std::int64_t num_replays() const {
    return recorder_.num_replays() - recorder_.num_captures();
  }
  const std::string& why_not() const { return recorder_.why_not(); }

 private:
  struct Captured;

  c10::Device device() const override;
  std::optional<std::string> why_eager(const Tensors& inputs) override;
  std::vector<const void*> addresses() override;
  std::shared_ptr<CapturedStep> capture(
      CaptureDevice& device, const Tensors& inputs, const Body& body) override;

  std::string obstacle(const Tensors& inputs) const;
  void refresh_learning_rates();
  void set_capturing(bool on);
  bool has_gradients() const;
  void drop_gradients();
  void count_replayed(std::int64_t updates);

  Accelerator::Impl& accelerator_;
  StepRecorder recorder_;
};

}  // namespace accelerate
