// SPDX-License-Identifier: Apache-2.0
#include "optim/state_tensors.h"

#include "accelerate/optim.h"

namespace accelerate {

std::vector<at::Tensor> state_tensors(torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> tensors;
  auto& states = optimizer.state();
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      if (found == states.end()) {
        tensors.emplace_back();
        continue;
      }
      const auto* state = found->second.get();
      if (const auto* adam = dynamic_cast<const AdamParamState*>(state)) {
        tensors.insert(
            tensors.end(),
            {adam->step,
             adam->exp_avg,
             adam->exp_avg_sq,
             adam->max_exp_avg_sq});
      } else if (const auto* sgd = dynamic_cast<const SGDParamState*>(state)) {
        tensors.push_back(sgd->momentum_buffer);
      }
    }
  }
  return tensors;
}

}  // namespace accelerate
