// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_gradients.h"

#include <utility>

namespace accelerate {

LocalGradients::LocalGradients(NamedTensors parameters)
    : parameters_(std::move(parameters)) {
}

void LocalGradients::begin(Sync sync, bool /*overlap*/) {
  sync_ = sync;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    at::Tensor& held = held_[i];
    at::Tensor& grad = parameters_.tensors[i].mutable_grad();
    if (held.defined()) {
      grad = grad.defined() ? held.add(grad) : std::move(held);
    }
  }
  held_.clear();
}

void LocalGradients::end() {
  if (sync_ == Sync::now || sync_ == Sync::visible) {
    return;
  }
  for (const at::Tensor& parameter : parameters_.tensors) {
    held_.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  }
}

void LocalGradients::fail() noexcept {
  held_.clear();
  for (const at::Tensor& parameter : parameters_.tensors) {
    parameter.mutable_grad().reset();
  }
}

std::vector<at::Tensor> LocalGradients::sums() const {
  return held_.empty() ? std::vector<at::Tensor>(parameters_.size()) : held_;
}

void LocalGradients::set_sums(const std::vector<at::Tensor>& sums) {
  held_.clear();
  for (const at::Tensor& sum : sums) {
    held_.push_back(sum.defined() ? sum.clone() : at::Tensor());
  }
}

}  // namespace accelerate
