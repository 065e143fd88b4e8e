// SPDX-License-Identifier: Apache-2.0
#include "training/joint_steps.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

namespace accelerate {

void JointSteps::begin() {
  active_ = mesh_.data_size() > 1;
  steps_ = 0;
}

void JointSteps::announce() {
  ++steps_;
  static_cast<void>(exchange(/*trains=*/true));
}

bool JointSteps::wait_for_step() {
  return exchange(/*trains=*/false);
}

bool JointSteps::exchange(bool trains) {
  const auto all =
      mesh_.data_group().gather({at::full({1}, trains ? 1 : 0)})[0];
  const bool any = all.any().item<bool>();
  buffer_source_ =
      any ? static_cast<int>(all.argmax().item<std::int64_t>()) : 0;
  return any;
}

int JointSteps::longest_rank() const {
  const auto steps =
      mesh_.data_group().gather({at::full({1}, steps_, at::kLong)})[0];
  return static_cast<int>(steps.argmax().item<std::int64_t>());
}

}  // namespace accelerate
