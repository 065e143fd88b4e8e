// SPDX-License-Identifier: Apache-2.0
#include "optim/joint_counters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/zeros.h>

#include "accelerate/optim.h"

namespace accelerate {
namespace {

// The one tensor behind the counters, if they are all of it.
at::Tensor joint(const std::vector<at::Tensor>& counters) {
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

void join_group(
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
      make_counters(states.size(), group.params().front().device());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const at::Tensor& counter = counters[i];
    counter.copy_(states[i]->step);
    states[i]->step = counter;
  }
}

}  // namespace

std::vector<at::Tensor> make_counters(std::size_t count, c10::Device device) {
  const at::Tensor all = at::zeros(
      {static_cast<std::int64_t>(count)},
      at::TensorOptions(device).dtype(at::kFloat));
  return all.unbind();
}

void advance(const std::vector<at::Tensor>& counters) {
  if (const at::Tensor all = joint(counters); all.defined()) {
    all.add_(1);
  } else {
    at::_foreach_add_(counters, 1);
  }
}

void take_back(
    const std::vector<at::Tensor>& counters, const at::Tensor& found_inf) {
  if (const at::Tensor all = joint(counters); all.defined()) {
    all.sub_(found_inf);
  } else {
    at::_foreach_add_(counters, found_inf.reshape({}), -1);
  }
}

void join_counters(torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<AdamW*>(&optimizer) == nullptr &&
      dynamic_cast<Adam*>(&optimizer) == nullptr) {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const auto& group : optimizer.param_groups()) {
    join_group(optimizer, group);
  }
}

}  // namespace accelerate
