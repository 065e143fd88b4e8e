// SPDX-License-Identifier: Apache-2.0
#include "optim/step_counters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/zeros.h>

#include "accelerate/optim.h"

namespace accelerate {
namespace {

// Returns the tensor of which the counters are views, if the counters cover the
// whole tensor.
at::Tensor packed_tensor(const std::vector<at::Tensor>& counters) {
  const auto* storage = counters.front().storage().unsafeGetStorageImpl();
  if (storage->nbytes() != counters.size() * sizeof(float)) {
    return {};
  }
  for (const at::Tensor& counter : counters) {
    if (counter.storage().unsafeGetStorageImpl() != storage) {
      return {};
    }
  }
  const auto count = static_cast<std::int64_t>(counters.size());
  return counters.front().as_strided({count}, {1}, 0);
}

void pack_param_group(
    torch::optim::Optimizer& optimizer,
    const torch::optim::OptimizerParamGroup& group) {
  std::vector<AdamParamState*> states;
  for (const at::Tensor& parameter : group.params()) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found != optimizer.state().end()) {
      states.push_back(static_cast<AdamParamState*>(found->second.get()));
    }
  }
  if (states.empty()) {
    return;
  }
  const auto counters =
      make_step_counters(states.size(), group.params().front().device());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const at::Tensor& counter = counters[i];
    counter.copy_(states[i]->step);
    states[i]->step = counter;
  }
}

}  // namespace

std::vector<at::Tensor> make_step_counters(
    std::size_t count, c10::Device device) {
  const at::Tensor all = at::zeros(
      {static_cast<std::int64_t>(count)},
      at::TensorOptions(device).dtype(at::kFloat));
  return all.unbind();
}

void advance(const std::vector<at::Tensor>& counters) {
  if (const at::Tensor all = packed_tensor(counters); all.defined()) {
    all.add_(1);
  } else {
    at::_foreach_add_(counters, 1);
  }
}

void undo_skipped_step(
    const std::vector<at::Tensor>& counters, const at::Tensor& found_inf) {
  if (const at::Tensor all = packed_tensor(counters); all.defined()) {
    all.sub_(found_inf);
  } else {
    at::_foreach_add_(counters, found_inf.reshape({}), -1);
  }
}

void pack_step_counters(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<AdamW*>(&optimizer) == nullptr &&
      dynamic_cast<Adam*>(&optimizer) == nullptr) {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const auto& group : optimizer.param_groups()) {
    pack_param_group(optimizer, group);
  }
}

}  // namespace accelerate
