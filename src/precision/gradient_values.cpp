// SPDX-License-Identifier: Apache-2.0
#include "precision/gradient_values.h"

#include <algorithm>

namespace accelerate {
namespace {

at::Tensor values_of(at::Tensor gradient) {
  if (!gradient.is_sparse()) {
    return gradient;
  }
  if (!gradient.is_coalesced()) {
    // Sums entries with the same index. Changes the tensor in place, because
    // the parameter refers to it.
    gradient.copy_(gradient.coalesce());
  }
  return gradient._values();
}

}  // namespace

std::vector<at::Tensor> gradient_values(
    const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> values;
  values.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) {
      values.push_back(values_of(gradient));
    }
  }
  return values;
}

std::vector<std::vector<at::Tensor>> by_type(
    const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> groups;
  for (const at::Tensor& tensor : tensors) {
    const auto same = [&](const std::vector<at::Tensor>& group) {
      return group.front().scalar_type() == tensor.scalar_type() &&
             group.front().device() == tensor.device();
    };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      found = groups.insert(groups.end(), {tensor});
    } else {
      found->push_back(tensor);
    }
  }
  return groups;
}

}  // namespace accelerate
