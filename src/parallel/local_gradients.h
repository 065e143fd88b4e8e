// SPDX-License-Identifier: Apache-2.0
// The gradient path of a single process.
#pragma once

#include "parallel/gradient_path.h"

namespace accelerate {

/// Nothing to reduce: only hides sums between the micro-steps of an
/// accumulation. Costs nothing without one.
class LocalGradients : public GradientPath {
 public:
  explicit LocalGradients(NamedTensors parameters);

  void begin(Sync sync, bool ahead = true) override;
  void end() override;
  void fail() noexcept override;
  std::vector<at::Tensor> sums() const override;
  void set_sums(const std::vector<at::Tensor>& sums) override;
  const NamedTensors& parameters() const override { return parameters_; }

 private:
  NamedTensors parameters_;
  std::vector<at::Tensor> held_;  // Empty unless an accumulation is under way.
  Sync sync_ = Sync::now;
};

}  // namespace accelerate
