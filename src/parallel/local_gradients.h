// SPDX-License-Identifier: Apache-2.0
// The gradient path of a single process.
#pragma once

#include "parallel/gradient_path.h"

namespace accelerate {

/// A gradient path without communication. During gradient accumulation, hides
/// the accumulated gradients between micro-batches; otherwise, leaves the
/// gradients in `.grad`.
class LocalGradients : public GradientPath {
 public:
  explicit LocalGradients(NamedTensors parameters);

  void begin(Sync sync, bool overlap = true) override;
  void end() override;
  void fail() noexcept override;
  // There are no other ranks to join.
  void begin_zero_contribution() override {}
  void end_zero_contribution() override {}
  std::vector<at::Tensor> sums() const override;
  void set_sums(const std::vector<at::Tensor>& sums) override;
  const NamedTensors& parameters() const override { return parameters_; }

 private:
  NamedTensors parameters_;
  // The hidden gradients; empty outside gradient accumulation.
  std::vector<at::Tensor> held_;
  Sync sync_ = Sync::now;
};

}  // namespace accelerate
