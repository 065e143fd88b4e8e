// SPDX-License-Identifier: Apache-2.0
// Captures training steps as CUDA graphs and replays the graphs.
//
//     auto step = accelerator.graph([&](const TensorMap& batch) {
//       auto outputs = model(batch);
//       accelerator.backward(outputs.loss);
//       optimizer.step();
//       optimizer.zero_grad();
//       return outputs.loss;
//     });
//     for (auto& batch : loader) {
//       losses.push_back(step(batch));
//       lr_scheduler.step();
//     }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/fwd.h"

namespace accelerate {

struct GraphOptions {
  /// How many calls with the same shapes run eagerly before a call is captured.
  /// Eager calls create the optimizer's state and choose GPU kernels.
  std::int64_t warmup_steps = 2;
  /// At most this many combinations of shapes are captured; calls with other
  /// shapes run eagerly.
  std::int64_t max_graphs = 16;
};

namespace detail {

/// Captures a function of tensors as a CUDA graph, once for each combination of
/// shapes, and replays the graphs. The object that `Accelerator::graph` returns
/// is a thin wrapper around this class.
class ACCELERATE_API GraphedFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Body = std::function<Tensors(const Tensors&)>;

  class Impl;
  explicit GraphedFunction(std::shared_ptr<Impl> impl);

  /// Calls `body(inputs)`, or replays its captured graph. The caller owns the
  /// results: a later call does not change them. The results have no autograd
  /// graph.
  Tensors run(const Tensors& inputs, const Body& body) const;

  /// Returns how many combinations of shapes were captured.
  std::int64_t num_graphs() const;
  /// Returns how many calls were replays.
  std::int64_t num_replays() const;
  /// Returns why calls run eagerly; empty if nothing prevents capture.
  std::string why_not() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace detail
}  // namespace accelerate
