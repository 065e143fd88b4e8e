// SPDX-License-Identifier: Apache-2.0
// Training steps that a GPU starts as a whole.
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
  /// Calls with the same shapes that run as they are before one is recorded:
  /// they make the optimizer's state and choose kernels.
  std::int64_t warmup_steps = 2;
  /// Shapes that are recorded; others run as they are.
  std::int64_t max_graphs = 16;
};

namespace detail {

/// Records a function over tensors, once for each combination of shapes, and
/// replays it. What `Accelerator::graph` gives out is a thin shell over this.
class ACCELERATE_API GraphedFunction {
 public:
  using Tensors = std::vector<Tensor>;
  using Body = std::function<Tensors(const Tensors&)>;

  class Impl;
  explicit GraphedFunction(std::shared_ptr<Impl> impl);

  /// `body(inputs)`, or a replay of what it did before. The results are the
  /// caller's: a later call does not change them. They have no graph behind
  /// them.
  Tensors run(const Tensors& inputs, const Body& body) const;

  /// How many combinations of shapes were recorded.
  std::int64_t num_graphs() const;
  /// How many calls were replays.
  std::int64_t num_replays() const;
  /// Why calls run as they are; empty while nothing speaks against recording.
  std::string why_not() const;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace detail
}  // namespace accelerate
